//! Bugs that the crash suites must notice.

use super::{Judge, Planted, Suite};

/// The test of the crash suites that must notice a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Catcher {
    /// The workload itself, with its crash states and its killed processes.
    Crashes,
    /// The workload with calls of the disk that fail.
    FailingCalls,
    /// Damaged files.
    Damage,
    /// A log that ends where an old record begins.
    StaleLog,
    /// Records that were never synced, and that a restart finds.
    FoundTail,
    /// Logs that end at each sector of their flushes.
    LogEnds,
    /// A checkpoint while another process is stopped in the middle of writing pages.
    StoppedWriter,
    /// A leader of the log's flush, which dies of a failed sync.
    DeadLeader,
    /// A leader of the log's flush that meets a limit of its own process.
    LimitedProcess,
    /// Keys put into a range that another process has counted.
    CountedRanges,
    /// Power cuts after pages were written whole.
    WholeWrites,
}

impl Catcher {
    /// All catchers.
    pub const ALL: [Catcher; 11] = [
        Catcher::Crashes,
        Catcher::FailingCalls,
        Catcher::Damage,
        Catcher::StaleLog,
        Catcher::FoundTail,
        Catcher::LogEnds,
        Catcher::StoppedWriter,
        Catcher::DeadLeader,
        Catcher::LimitedProcess,
        Catcher::CountedRanges,
        Catcher::WholeWrites,
    ];
}

const fn caught_by(catcher: Catcher, name: &'static str) -> Planted {
    Planted::new(Suite::Crash, name, Judge::Catcher(catcher))
}

const fn by_crashes(name: &'static str) -> Planted {
    caught_by(Catcher::Crashes, name)
}

const fn by_failing_calls(name: &'static str) -> Planted {
    caught_by(Catcher::FailingCalls, name)
}

const fn by_damage(name: &'static str) -> Planted {
    caught_by(Catcher::Damage, name)
}

pub(super) const CRASHES: &[Planted] = &[
    by_crashes("buffer: the log is not forced before pages are written"),
    by_crashes("buffer: dirty pages are replaced before they are written"),
    by_crashes("buffer: pages written home are not synced"),
    by_failing_calls("buffer: the pages of an interrupted batch are not written home"),
    by_crashes("buffer: pages are written home without a double write"),
    by_crashes("buffer: a page is written once although the disk may tear it"),
    by_crashes("buffer: a refused page counts as written"),
    caught_by(Catcher::WholeWrites, "buffer: an older image stays in the double-write file"),
    caught_by(Catcher::WholeWrites, "buffer: a page that a failed write tore has no image"),
    by_failing_calls("txn: a page found by redo counts as synced"),
    by_damage("buffer: pages are not checked when they are read"),
    by_crashes("buffer: torn pages are not mended"),
    caught_by(Catcher::StoppedWriter, "buffer: a written page counts as synced"),
    by_crashes("control: the control file is not synced"),
    by_crashes("lock: a conversion is granted beside readers"),
    by_crashes("lock: readers are granted beside a writer"),
    by_crashes("lock: a word is not read again under the latch"),
    by_crashes("lock: a marked word counts as inflated"),
    by_failing_calls("log: a failed sync is repeated"),
    by_crashes("log: a flush is not synced"),
    caught_by(Catcher::FoundTail, "log: a restart does not write the found tail again"),
    by_damage("log: a new incarnation is written to only one slot").seen_at(20787),
    caught_by(Catcher::StaleLog, "log: a restart does not raise the incarnation"),
    caught_by(Catcher::LimitedProcess, "log: a flush that meets a limit of its process poisons the log"),
    caught_by(Catcher::LimitedProcess, "buffer: a limit of one process counts as a failed sync"),
    by_crashes("log: the names of new segments are not synced").seen_at(20787),
    by_crashes("log: a new segment is not synced"),
    by_damage("log: no flush marks are written").seen_at(20785),
    by_crashes("log: segments are recycled too early"),
    caught_by(Catcher::DeadLeader, "log: bytes that another leader wrote are not written again").seen_at(20788),
    by_damage("log: flush marks after a hole are ignored").seen_at(20785),
    by_crashes("record: a bucket split ignores overflow pages"),
    by_crashes("record: an undo in a hash file does not search for the record"),
    by_crashes("record: a bucket is counted before it exists"),
    by_crashes("libtp: later values of a key sort first"),
    by_crashes("list: the parent's count is not changed").seen_at(20785),
    by_crashes("list: renumbering takes no lock").seen_at(20786),
    by_crashes("libtp: old index entries of a record are not deleted"),
    by_crashes("record: an entry has no mark at the end of its key"),
    by_crashes("record: an insertion does not lock the gap"),
    by_crashes("record: an insertion into a hash file does not lock the gap").seen_at(20790),
    by_crashes("record: a scan does not lock gaps"),
    by_crashes("record: locked ghosts are removed").seen_at(20785),
    caught_by(Catcher::LogEnds, "record: a search ignores high keys").seen_at(20785),
    by_crashes("record: the mark of an incomplete split is not cleared"),
    by_crashes("record: the left link of the old right neighbour is not set"),
    by_crashes("record: a loaded page has no link to the next"),
    by_crashes("record: an undone load does not free its pages"),
    by_crashes("libtp: a merge of runs reverses equal keys"),
    by_crashes("record: an append takes a locked number").seen_at(20786),
    by_crashes("record: the log record of a bucket split does not list the new bucket"),
    by_crashes("record: the name of a new file is not synced"),
    by_crashes("record: the count of allocated pages is not raised"),
    by_crashes("record: records are not locked"),
    by_crashes("record: a replaced chain is freed at once"),
    by_crashes("record: slack is released before the commit"),
    caught_by(Catcher::CountedRanges, "record: the end of a range is not locked"),
    by_crashes("record: an undone insertion leaves a record"),
    by_crashes("txn: a changed page is not marked dirty"),
    by_crashes("txn: checkpoints omit running transactions"),
    by_crashes("txn: checkpoints write no pages"),
    by_crashes("txn: a commit does not wait for the disk"),
    by_crashes("txn: compensation records are not logged"),
    by_crashes("txn: compensation records are undone"),
    by_crashes("txn: a rollback to a savepoint undoes everything"),
    by_crashes("txn: the page LSN is not set"),
    by_crashes("txn: a reader does not wait for the commits that it read").seen_at(20800),
    by_crashes("txn: redo ignores page LSNs"),
    by_crashes("txn: repair undoes nothing"),
    by_crashes("txn: restart undoes nothing"),
];
