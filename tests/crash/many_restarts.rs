//! Three hundred crashes in a row without a checkpoint: the environment must still open.

use libtp::Durability;
use libtp_sim::SimDisk;
use libtp_tests::library::{Layout, Machine, Way};
use libtp_tests::oracle::{State, Table, Value};

#[test]
fn three_hundred_crashes_without_a_checkpoint_lose_nothing() {
    let machine = Machine::new(SimDisk::new(5), Layout::default());
    let mut wanted = State::default();
    for crash in 0_u32..300 {
        let process = machine.start().unwrap();
        assert_eq!(process.state(Way::Up).unwrap(), wanted, "after {crash} crashes");
        let place = (Table::Tree("accounts"), crash.to_be_bytes().to_vec());
        let value = Value::from(format!("crash {crash}").as_bytes());
        let txn = process.begin(Durability::Sync).unwrap();
        process.put(&txn, &place, &value).unwrap();
        txn.commit().unwrap();
        wanted.put(&place, Some(&value));
        process.kill();
        machine.lose_memory();
    }
}
