//! While the setting `KernelLatches` is on, each latch calls the kernel when it is taken and when it is released; at
//! other times no latch calls the kernel. The file has only this test, because the setting is valid for the whole
//! process.
#![cfg(feature = "kernel-latches")]

use libtp_process::{KernelLatches, Latch, ProcessManager, Rank, Settings};

#[test]
fn latches_call_the_kernel_while_the_setting_is_on() -> Result<(), Box<dyn std::error::Error>> {
    let region = rio::Region::anonymous(1 << 24)?;
    ProcessManager::init(&region)?;
    let processes = ProcessManager::attach(&region, &Settings::default())?;
    let session = processes.join()?;
    let latch = region.at(region.allocate::<Latch>(1)?);
    let toll = KernelLatches::begin()?;
    let free = toll.left()?;
    let shared = latch.shared(&session, Rank::CATALOGUE);
    assert_eq!(toll.left()?, free - 1);
    drop(shared);
    let exclusive = latch.exclusive(&session, Rank::CATALOGUE);
    assert_eq!(toll.left()?, free - 1);
    drop(exclusive);
    let tried = [latch.try_shared(&session, Rank::CATALOGUE), latch.try_shared(&session, Rank::CATALOGUE)];
    assert_eq!(toll.left()?, free - 2);
    assert!(latch.try_exclusive(&session, Rank::CATALOGUE).is_none());
    drop(tried);
    let tried = latch.try_exclusive(&session, Rank::CATALOGUE);
    assert_eq!(toll.left()?, free - 1);
    drop(tried);
    assert_eq!(toll.left()?, free);

    let other = KernelLatches::begin()?;
    drop(latch.shared(&session, Rank::CATALOGUE));
    let held = latch.shared(&session, Rank::CATALOGUE);
    assert_eq!((toll.left()?, other.left()?), (free, free - 1));
    drop(toll);
    drop(held);
    assert_eq!(other.left()?, free, "the second setting stays on when the first ends");
    Ok(())
}
