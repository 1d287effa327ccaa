//! LIBTP figure 5: latches in user space, compared with semaphores of the kernel.

use std::cell::RefCell;
use std::path::Path;

use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::median::median;

use super::bank::{Bank, Contender, Slice, StartClient};
use super::figure::{spelled, Axis, Figure, Place};
use super::rounds::{Case, Sample};
use super::Paper;

/// The environment variable that names a program whose latches can call the kernel. Such latches are slower even when
/// they do not call the kernel, so the program that measures all other figures is built without them.
pub const KERNEL_LATCHES: &str = "LIBTP_KERNEL_LATCHES";
const ID: &str = "libtp-5";
const SEMAPHORES: &str = "semaphores of the kernel";

/// The figure's three bars.
const PLACES: [&str; 3] = ["1 directory", "2 directories", "read only, in memory"];

/// Measures the rate when each latch costs two calls of the kernel, in percent of the rate without these calls.
pub(super) fn figure_5(paper: &mut Paper<'_>) -> Result<()> {
    let elsewhere = paper.settings.disk.join("log-elsewhere");
    let settings = format!("log_directory = {:?}\n", elsewhere.display().to_string());
    let contenders = [
        Contender::libtp(Durability::Sync),
        Contender { settings: Some(settings), ..Contender::libtp(Durability::Sync) },
        Contender::libtp(Durability::Relaxed),
    ];
    let lines: Vec<_> = PLACES.into_iter().map(str::to_owned).zip(contenders).collect();
    let scale = paper.pace.scale;
    let start = paper.settings.kernel_client;
    let (banks, refused) = paper.banks(&lines, scale);
    let rates: RefCell<Vec<(usize, f64, f64)>> = RefCell::default();
    let mut cases = Vec::new();
    for (name, bank) in &banks {
        let at = PLACES.iter().position(|place| place == name).unwrap_or(0);
        let is_read_only = at == 2;
        let time = if is_read_only { paper.pace.slice } else { paper.pace.long_slice };
        let (slice, rates) = (Slice { time, is_read_only, ..paper.slice(1) }, &rates);
        let mut is_first_without = false;
        cases.push(Case::new(name, Place::Name(SEMAPHORES.to_owned()), move || {
            is_first_without = !is_first_without;
            let (sample, [without, with]) = beside_itself(bank, &slice, start, is_first_without)?;
            rates.borrow_mut().push((at, without, with));
            Ok(sample)
        }));
    }
    let mut series = paper.measure(ID, &mut cases, paper.pace.rounds)?;
    drop(cases);
    paper.settle(banks, &mut series);
    series.extend(refused);
    let notes = PLACES.iter().enumerate().filter_map(|(at, place)| said(at, place, &rates.borrow())).collect();
    paper.figures.push(Figure {
        id: ID.into(),
        title: "Latches that call the kernel, compared with latches in user space".into(),
        paper: "LIBTP 4.3 and figure 5, one user: the rate with semaphores of the kernel as a percentage of the rate with spinlocks; with database and \
                log on one disk, on two disks, and read only with the database in the cache. The text has 4.4 instead of 4.6 transactions per second on \
                one disk (96 %). The rate is 4 to 6 % lower where the client waits for the disk, and 67 % lower where it does not."
            .into(),
        here: "The same bank, with and without calls of the kernel: when the client (a process) takes or releases a latch, it calls `semop` on a \
               System V semaphore that no other process uses, as in the paper's runs of one user. In each round a slice with the calls and a slice \
               without them follow each other, by the same program. Here the two directories are on one disk."
            .into(),
        x: Axis::linear("kind of latch"),
        y: Axis::linear("percent of the rate in user space"),
        series,
        notes,
    });
    Ok(())
}

/// Measures a slice without semaphores and a slice with semaphores, in either order. Returns the rate with semaphores
/// in percent of the rate without, and both rates: first without, then with semaphores.
fn beside_itself(
    bank: &Bank,
    slice: &Slice<'_>,
    start: Option<StartClient<'_>>,
    is_first_without: bool,
) -> Result<(Sample, [f64; 2])> {
    let start = start.ok_or_else(cannot_call)?;
    let with_kernel_latches = |contender: &Contender, directory: &Path| {
        start(&Contender { calls_kernel: true, ..contender.clone() }, directory)
    };
    let free = || bank.sample(&Slice { process: Some(start), ..*slice });
    let paid = || bank.sample(&Slice { process: Some(&with_kernel_latches), ..*slice });
    let (without, with) = match is_first_without {
        true => (free()?, paid()?),
        false => {
            let with = paid()?;
            (free()?, with)
        }
    };
    let audit = if without.audit == "ok" { with.audit } else { without.audit };
    let raw = serde_json::json!({ "without": without.raw, "with": with.raw });
    let rates = [without.value, with.value];
    Ok((Sample { value: 100.0 * with.value / without.value, audit, raw }, rates))
}

fn cannot_call() -> Error {
    Error::Settings(format!(
        "the latches of this build cannot call the kernel: `cargo xtask bench paper` builds a program whose latches can; or set \
         {KERNEL_LATCHES} to a program that was built with --features kernel-latches"
    ))
}

impl Contender {
    /// Does a client's work. If the contender has `calls_kernel`, each latch of this process calls the kernel during
    /// the work.
    ///
    /// # Errors
    /// The error of the work; `Settings` if latches of this build cannot call the kernel, or the system has no free
    /// semaphore.
    pub fn with_kernel_latches<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.calls_kernel {
            true => with_kernel_latches(work),
            false => work(),
        }
    }
}

/// Does some work while every latch costs two calls of the kernel.
#[cfg(feature = "kernel-latches")]
fn with_kernel_latches<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let toll = libtp::KernelLatches::begin()
        .map_err(|why| Error::Settings(format!("the system refuses a semaphore: {why}")))?;
    let done = work();
    drop(toll);
    done
}

#[cfg(not(feature = "kernel-latches"))]
fn with_kernel_latches<T>(_: impl FnOnce() -> Result<T>) -> Result<T> {
    Err(cannot_call())
}

/// Returns a sentence with the median rates of a place.
fn said(at: usize, place: &str, rates: &[(usize, f64, f64)]) -> Option<String> {
    let here = || rates.iter().filter(|(one, ..)| *one == at);
    let without = median(here().map(|(_, without, _)| *without))?;
    let with = median(here().map(|(_, _, with)| *with))?;
    Some(format!("{place}: {} transactions per second with semaphores, {} without.", spelled(with), spelled(without)))
}
