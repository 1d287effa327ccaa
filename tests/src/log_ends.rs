//! The log ends at every sector of its flushes in turn (PROTOCOLS L2, T1).
//!
//! A disk guarantees only whole sectors, so a power cut during a flush may end the log at any sector: between two
//! records, or between the two actions of a split. Crash states that tear writes at random hardly ever end the log
//! between these two actions; here every flush of a workload is cut at each of its sectors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use libtp_sim::{Change, CrashImages, LossMode, NodeId};

use crate::crash_image::{judge, Thoroughness};
use crate::library::Layout;
use crate::workload::{Plan, Run};

const SECTOR: usize = 512;
/// Bytes of a segment's header: a write there is not a flush.
const HEADER: u64 = 4096;

/// An end of the log: of the write with the I/O index `position`, only the first `kept` bytes are on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The I/O index of the write.
    pub position: usize,
    /// How many bytes of the write are on the disk.
    pub kept: usize,
    path: String,
    offset: u64,
    bytes: Arc<[u8]>,
}

impl fmt::Display for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log ends after {} of {} bytes of the flush at {}", self.kept, self.bytes.len(), self.position)
    }
}

/// Returns the workload whose log is cut.
pub fn plan(seed: u64) -> Plan {
    Plan { transactions: 150, ..Plan::full(seed) }
}

/// Returns every place where a flush of the workload can be torn, in order.
pub fn all_log_ends(seed: u64, run: &Run) -> Vec<LogEnd> {
    let layout = Layout::of_seed(seed);
    let mut names: BTreeMap<NodeId, String> = BTreeMap::new();
    let mut ends = Vec::new();
    for (position, entry) in run.machine.disk.trace().into_iter().enumerate() {
        match entry.change {
            Change::CreateFile { name, file: node, .. } | Change::Rename { to: name, node, .. } => {
                names.insert(node, name.to_string());
            }
            Change::Write { file, offset, bytes, .. } if offset >= HEADER => {
                let Some(name) = names.get(&file).filter(|name| is_segment(name)) else { continue };
                let path = if layout.has_log_directory { format!("log/{name}") } else { name.clone() };
                let to_sector = SECTOR - usize::try_from(offset % SECTOR as u64).unwrap_or(0);
                let cuts = (to_sector..bytes.len()).step_by(SECTOR);
                ends.extend(cuts.map(|kept| LogEnd {
                    position,
                    kept,
                    path: path.clone(),
                    offset,
                    bytes: bytes.clone(),
                }));
            }
            _ => {}
        }
    }
    ends
}

fn is_segment(name: &str) -> bool {
    name.strip_prefix("log.").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Ends the log at `end`, and judges the state after a restart. `walk` moves forward to the write of `end`, so its
/// position must not be after this write.
///
/// # Errors
/// Describes the fault.
pub fn judge_log_end(seed: u64, run: &Run, walk: &mut CrashImages, end: &LogEnd) -> Result<(), String> {
    walk.advance_to(end.position);
    let image = walk.image(LossMode::DropAll, seed);
    image.damage(&end.path, end.offset, &end.bytes[..end.kept]);
    let history = run.history_at(end.position);
    let thoroughness = Thoroughness { looks_up: true, ..Thoroughness::default() };
    // The write was requested, so its records may be there.
    judge(&image, Layout::of_seed(seed), history, history.allowed_at(end.position + 1), thoroughness).map(|_| ())
}
