//! Power cuts after pages were written whole (PROTOCOLS L8).
//!
//! The double-write file may have an older image of such a page, from a process that writes pages twice. If a restart
//! put that image in the page's place, changes would be lost silently: the log of these changes may be given up
//! already. And a disk may break its promise: then the page that it tore needs an image.

use std::sync::Arc;

use libtp_io::Directory;
use libtp_sim::{Accepted, LossMode, WholeWrites};

use crate::library::{Layout, Machine, Trouble, Way};
use crate::short_run::{unusable, ShortRun};
use crate::wrapped::{Calls, WrappedDirectory};

const RECORDS: u64 = 40;
const PAGE_BYTES: usize = 4096;
const FILE: &str = "accounts.tp";

/// Calls of files that write no page whole.
struct Twice;

impl Calls for Twice {}

/// Writes pages twice, changes them and writes them whole. Then cuts the power, and damages these pages on the medium.
///
/// # Errors
/// A restart has put older images in the place of the pages.
pub fn an_older_image_replaces_no_page_written_whole(seed: u64) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let disk = run.machine.disk.clone();
    disk.promise_whole_writes(WholeWrites { bytes: 512..=8192, accepted: Accepted::All });
    let whole = run.machine.start().map_err(unusable)?;
    let through = |inner| -> Arc<dyn Directory> { Arc::new(WrappedDirectory::new(inner, ".tp", Arc::new(Twice))) };
    let twice = run.machine.start_in(through).map_err(unusable)?;
    run.put(&whole, "account", "first").map_err(unusable)?;
    let before = disk.activity().whole_write;
    twice.write_pages().map_err(unusable)?;
    let older = disk.file_bytes(FILE).unwrap_or_default();
    if disk.activity().whole_write != before {
        return Err("UNUSABLE: a process without whole writes has written pages whole".into());
    }
    run.put(&whole, "account", "second").map_err(unusable)?;
    whole.write_pages().map_err(unusable)?;
    whole.checkpoint().map_err(unusable)?;
    if disk.activity().whole_write == before {
        return Err("UNUSABLE: no page was written whole".into());
    }

    let position = disk.io_index();
    let image = disk.image_at(position, LossMode::DropAll, seed);
    let newer = image.file_bytes(FILE).unwrap_or_default();
    let pages = newer.chunks(PAGE_BYTES).zip(older.chunks(PAGE_BYTES)).enumerate();
    for (number, _) in pages.filter(|(_, (newer, older))| newer != older) {
        image.damage(FILE, (number * PAGE_BYTES + PAGE_BYTES / 2) as u64, &[0xdd; 16]);
    }
    let machine = Machine::new(image, Layout::of_seed(seed));
    match machine.start().and_then(|process| process.state(Way::Up)) {
        Err(Trouble::Damaged(_)) => Ok(()),
        Err(other) => Err(unusable(other)),
        Ok(state) => match run.history.judge(&state, run.history.allowed_at(position)) {
            Ok(_) => Err("UNUSABLE: the damage of the medium was not noticed".into()),
            Err(wrong) => Err(format!("{wrong}, after damage to pages that were written whole")),
        },
    }
}

/// Writes pages to a disk that tears one of them and reports an error. Then cuts the power.
///
/// # Errors
/// A record is lost, or the pages were not written twice at once.
pub fn a_page_that_a_failed_write_tore_has_an_image(seed: u64) -> Result<(), String> {
    let mut run = ShortRun::new(seed, RECORDS);
    let disk = run.machine.disk.clone();
    let promise = |accepted| disk.promise_whole_writes(WholeWrites { bytes: 512..=8192, accepted });
    promise(Accepted::All);
    let process = run.machine.start().map_err(unusable)?;
    run.put(&process, "account", "first").map_err(unusable)?;
    process.write_pages().map_err(unusable)?;
    process.checkpoint().map_err(unusable)?;
    run.put(&process, "account", "second").map_err(unusable)?;
    promise(Accepted::TornAfter(0));
    let written = process.write_pages();
    if disk.activity().whole_torn == 0 {
        return Err("UNUSABLE: the disk has torn no page".into());
    }
    run.judge(disk.io_index(), "a write that failed and tore a page")?;
    written.map_err(|trouble| format!("the pages of a failed write were not written twice: {trouble}"))
}
