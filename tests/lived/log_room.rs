//! Tests of the log alone, with the smallest ring on a nearly full disk. A session's credit is the room in the log that
//! the session has reserved and not used yet. The sessions append many records into this room (PROTOCOLS D11).

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_log::{
    record_bytes, restart, Control, ControlFile, Error, LogManager, Lsn, Settings, TxnId, CONTROL_NAME, KEPT_BACK_BYTES,
};
use libtp_process::{ProcessManager, Session};
use libtp_sim::SimDisk;
use rio::Region;

const KIND: u16 = 1024;
/// Bytes of the largest page.
const PAGE_BYTES: usize = 64 << 10;

fn settings() -> Settings {
    Settings {
        segment_bytes_first: 16 << 10,
        segment_bytes_max: 64 << 10,
        ring_chunk_bytes: 4 << 10,
        ring_bytes_max: 8 << 10,
        ring_bytes_kept: 4 << 10,
        recycled_bytes: 64 << 10,
        recycled_bytes_max: 64 << 10,
        ..Settings::default()
    }
}

fn control_file(directory: &Arc<dyn Directory>) -> ControlFile {
    ControlFile::new(directory.open(CONTROL_NAME, OpenMode::Create).unwrap(), CONTROL_NAME)
}

/// One incarnation of a log: from the start of its shared memory to the loss of that memory.
struct LogIncarnation {
    disk: SimDisk,
    log: LogManager,
    processes: ProcessManager,
}

impl LogIncarnation {
    fn first() -> LogIncarnation {
        let disk = SimDisk::new(1);
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let control = Control::new([7; 16], &settings());
        control_file(&directory).create(&control).unwrap();
        directory.sync().unwrap();
        LogIncarnation::on(disk, &control, Lsn::FIRST)
    }

    fn on(disk: SimDisk, control: &Control, end: Lsn) -> LogIncarnation {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let region = Region::anonymous(1 << 28).unwrap();
        ProcessManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        LogManager::init(&region, &settings(), &directory, control, end).unwrap();
        let log = LogManager::attach(&region, &settings(), &directory, control, &processes).unwrap();
        LogIncarnation { disk, log, processes }
    }

    /// Begins the next incarnation, while sessions of this incarnation still exist.
    fn next(&self) -> LogIncarnation {
        let directory: Arc<dyn Directory> = Arc::new(self.disk.clone());
        let found = restart(&directory, &control_file(&directory), &settings()).unwrap();
        LogIncarnation::on(self.disk.clone(), &found.control, found.end.end)
    }

    fn commit(&self, session: &Session, body: &[u8]) -> libtp_log::Result<Lsn> {
        self.log.reserve(session, record_bytes(body.len()))?;
        self.log.log_commit(session, KIND, TxnId::new(1), Lsn::NONE, &[body])
    }

    /// Commits. If the disk is full, frees old log and commits again.
    fn commit_or_recycle(&self, session: &Session, body: &[u8]) {
        match self.commit(session, body) {
            Ok(_) => {}
            Err(Error::Full { .. }) => {
                self.log.recycle(session, self.log.durable(), Lsn::new(u64::MAX)).unwrap();
                self.commit(session, body).unwrap();
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn put(&self, session: &Session, body: &[u8]) {
        self.log.reserve(session, record_bytes(body.len())).unwrap();
        self.log.log(session, KIND, TxnId::new(1), Lsn::NONE, &[body]);
        session.clear_append();
    }

    fn fill_the_disk(&self, session: &Session) {
        self.disk.set_capacity(Some(self.disk.bytes_used()));
        while self.commit(session, &[1; 500]).is_ok() {}
    }
}

#[test]
fn the_smallest_commits_after_a_large_reservation_stay_within_the_ring() {
    let incarnation = LogIncarnation::first();
    let session = incarnation.processes.join().unwrap();
    incarnation.disk.set_capacity(Some(incarnation.disk.bytes_used() + (400 << 10)));
    for loaded in [PAGE_BYTES - record_bytes(0), 0] {
        // A load reserves room for a whole page, and may use less.
        incarnation.log.reserve(&session, PAGE_BYTES).unwrap();
        incarnation.log.log(&session, KIND, TxnId::new(1), Lsn::NONE, &[&vec![2; loaded]]);
        session.clear_append();
        for _ in 0..5_000 {
            incarnation.commit_or_recycle(&session, &[]);
        }
    }
    incarnation.log.check().unwrap();
}

#[test]
fn appends_on_credit_do_not_use_the_bytes_reserved_for_deletions() {
    let incarnation = LogIncarnation::first();
    let sessions: Vec<Session> = (0..8).map(|_| incarnation.processes.join().unwrap()).collect();
    let filler = incarnation.processes.join().unwrap();
    for session in sessions.iter().chain([&filler]) {
        incarnation.commit(session, &[]).unwrap();
    }
    incarnation.fill_the_disk(&filler);
    for session in &sessions {
        while session.log_room().credit() >= record_bytes(0) as u64 {
            incarnation.commit(session, &[]).unwrap();
        }
        assert!(matches!(incarnation.commit(session, &[]), Err(Error::Full { .. })));
    }
    // A session that deletes can append all bytes that the log reserves for deletions. Afterwards no session has a
    // credit.
    let tail = incarnation.log.tail();
    let freeing = filler.begin_freeing();
    while incarnation.commit(&filler, &[3; 500]).is_ok() {}
    assert!(incarnation.log.tail().since(tail) >= KEPT_BACK_BYTES, "only {} bytes", incarnation.log.tail().since(tail));
    drop(freeing);
    assert_eq!(filler.log_room().credit(), 0);
    assert!(sessions.iter().all(|session| matches!(incarnation.commit(session, &[]), Err(Error::Full { .. }))));
}

#[test]
fn a_refused_session_has_no_credit() {
    let incarnation = LogIncarnation::first();
    let (session, filler) = (incarnation.processes.join().unwrap(), incarnation.processes.join().unwrap());
    incarnation.commit(&session, &[]).unwrap();
    let credit = session.log_room().credit();
    assert!(credit > 0);
    incarnation.fill_the_disk(&filler);
    assert_eq!(filler.log_room().credit(), 0);
    let larger = usize::try_from(credit).unwrap();
    assert!(matches!(incarnation.commit(&session, &vec![0; larger]), Err(Error::Full { .. })));
    assert_eq!(session.log_room().credit(), 0);
    assert!(
        matches!(incarnation.commit(&session, &[]), Err(Error::Full { .. })),
        "the session still has a credit from before the refusal"
    );
}

#[test]
fn a_session_of_the_next_life_has_no_old_credit() {
    let incarnation = LogIncarnation::first();
    let session = incarnation.processes.join().unwrap();
    incarnation.commit(&session, &[]).unwrap();
    let next = incarnation.next();
    let its = next.processes.join().unwrap();
    assert!(its.log_room().credit() <= session.log_room().credit());
    let larger = vec![4; usize::try_from(session.log_room().credit()).unwrap()];
    for _ in 0..20 {
        next.put(&its, &larger);
    }
    next.log.force_all(&its).unwrap();
    next.log.check().unwrap();
}
