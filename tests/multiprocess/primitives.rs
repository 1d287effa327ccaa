//! The program's own pages and log-record types. A process that knows a type undoes a dead process's changes of that
//! type; a process that does not know the type leaves them to other processes (docs/design/0019).

use std::cell::RefCell;
use std::time::{Duration, Instant};

use libtp::{Builder, Env, Error, LogType, Mode, PageFile, PageLock, Result, Settings, SharedMemory};
use libtp_sim::{LossMode, SimDisk, SimProcess};
use libtp_tests::versions::platform;

const ADD: u16 = 7;

fn change(page: &mut [u8], argument: &[u8], sign: i64) -> std::result::Result<(), String> {
    let by: [u8; 9] = argument.try_into().map_err(|_| "nine bytes are needed".to_owned())?;
    let at = 8 * usize::from(by[0]);
    let by = i64::from_le_bytes(by[1..].try_into().unwrap());
    let counter = &mut page[at..at + 8];
    let now = i64::from_le_bytes(counter.try_into().unwrap()) + sign * by;
    if now > 1_000_000 {
        return Err(format!("{now} is too much"));
    }
    counter.copy_from_slice(&now.to_le_bytes());
    Ok(())
}

fn adding() -> LogType {
    LogType::new(ADD, "counter add", |page, by| change(page, by, 1)).undo(|page, by| change(page, by, -1))
}

fn by(at: u8, count: i64) -> Vec<u8> {
    [&[at][..], &count.to_le_bytes()].concat()
}

/// A machine whose simulated processes run in this process.
struct Machine {
    disk: SimDisk,
    memory: SharedMemory,
    /// The simulated processes, which live as long as the machine.
    views: RefCell<Vec<SimProcess>>,
}

impl Machine {
    fn new() -> Machine {
        Machine { disk: SimDisk::new(1), memory: SharedMemory::new(), views: RefCell::default() }
    }

    /// Returns every file with its bytes.
    fn contents(&self) -> Vec<(String, Option<Vec<u8>>)> {
        self.disk.paths().into_iter().map(|path| (path.clone(), self.disk.file_bytes(&path))).collect()
    }

    fn start(&self, builder: Builder) -> Result<Env> {
        let view = self.disk.process_view();
        let directory = view.directory();
        self.views.borrow_mut().push(view);
        let platform = platform(directory, &self.memory);
        let settings = Settings { no_background: true, lock_timeout_millis: Some(0), ..Settings::default() };
        builder.settings(settings).open_on(platform, &mut |_| {})
    }

    /// Returns the machine after a power cut that keeps all written bytes.
    fn after_a_power_cut(&self) -> Machine {
        Machine { disk: self.disk.crash_image(LossMode::KeepAll, 1), ..Machine::new() }
    }
}

fn knowing() -> Builder {
    Env::builder().log_type(adding())
}

fn counter(env: &Env, pages: &PageFile, at: usize) -> Result<i64> {
    env.run(|txn| {
        pages.lock(txn, 0, PageLock::Read)?;
        let page = pages.get(txn, 0)?;
        Ok(i64::from_le_bytes(page.bytes[8 * at..8 * at + 8].try_into().unwrap()))
    })
}

fn message_of<T: std::fmt::Debug>(answer: Result<T>) -> String {
    answer.unwrap_err().to_string()
}

#[test]
fn a_change_of_a_page_is_kept_or_undone_with_its_transaction() {
    let machine = Machine::new();
    let env = machine.start(Env::builder()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!(pages.page_bytes(), 8192 - 32);
    env.run(|txn| {
        pages.lock(txn, 0, PageLock::Write)?;
        let mut page = pages.get(txn, 0)?;
        assert!(page.bytes.iter().all(|&byte| byte == 0) && page.lsn().is_none());
        page.bytes[..5].copy_from_slice(b"hello");
        assert_ne!(pages.put(txn, &page)?, 0);
        assert_eq!(pages.count(txn)?, 1);
        Ok(())
    })
    .unwrap();
    let txn = env.begin().unwrap();
    for number in 0..2 {
        pages.lock(&txn, number, PageLock::Write).unwrap();
        let mut page = pages.get(&txn, number).unwrap();
        page.bytes[3..].fill(b'x');
        pages.put(&txn, &page).unwrap();
    }
    txn.abort().unwrap();
    let read = |env: &Env, pages: &PageFile| {
        env.run(|txn| Ok([pages.get(txn, 0)?.bytes, pages.get(txn, 1)?.bytes].map(|bytes| bytes[..6].to_vec())))
    };
    assert_eq!(read(&env, &pages).unwrap(), [b"hello\0", b"\0\0\0\0\0\0"]);
    assert!(env.verify("pages").unwrap().findings.is_empty());
    drop((pages, env));
    let env = machine.start(Env::builder()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!(read(&env, &pages).unwrap(), [b"hello\0", b"\0\0\0\0\0\0"]);
    assert!(message_of(env.database("pages").map(|_| ())).contains("Env::pages"));
    assert!(message_of(env.btree("pages").map(|_| ())).contains("it is a pages database"));
}

#[test]
fn a_page_that_was_not_locked_first_is_not_stored() {
    let machine = Machine::new();
    let env = machine.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    env.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let txn = env.begin().unwrap();
    let mut early = pages.get(&txn, 0).unwrap();
    early.bytes[0] = 99;
    assert!(message_of(pages.put(&txn, &early)).contains("without a lock for writing"));
    env.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    pages.lock(&txn, 0, PageLock::Write).unwrap();
    assert!(message_of(pages.put(&txn, &early)).contains("was changed after this copy of it was read"));
    let mut far = pages.get(&txn, 5).unwrap();
    far.bytes[0] = 1;
    pages.lock(&txn, 5, PageLock::Write).unwrap();
    assert!(message_of(pages.put(&txn, &far)).contains("the next page is 1"));
    far.bytes.pop();
    assert!(message_of(pages.put(&txn, &far)).contains("a page of this file has 8160"));
    assert!(message_of(pages.unlock(&txn, 0)).contains("must stay until the transaction ends"));
    assert!(message_of(pages.apply(&txn, 0, ADD, &by(0, 1_000_000))).contains("is too much"));
    assert!(message_of(pages.apply(&txn, 0, 8, &[])).contains("the code 8"));
    txn.commit().unwrap();
    assert_eq!(counter(&env, &pages, 0).unwrap(), 2);
}

#[test]
fn concurrent_transactions_change_one_page_and_each_undoes_its_own_changes() {
    let machine = Machine::new();
    let env = machine.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    for (txn, count) in [(&one, 10), (&two, 100), (&one, 20), (&two, 200)] {
        pages.apply(txn, 0, ADD, &by(0, count)).unwrap();
    }
    let part = two.savepoint();
    pages.apply(&two, 0, ADD, &by(0, 5000)).unwrap();
    part.roll_back().unwrap();
    let reader = env.begin().unwrap();
    assert!(matches!(pages.lock(&reader, 0, PageLock::Read), Err(Error::LockTimeout(_))));
    reader.abort().unwrap();
    one.abort().unwrap();
    two.commit().unwrap();
    assert_eq!(counter(&env, &pages, 0).unwrap(), 300);
}

#[test]
fn a_restart_without_a_type_is_refused_with_its_name_and_code() {
    let machine = Machine::new();
    let env = machine.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    env.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let open = env.begin().unwrap();
    pages.apply(&open, 0, ADD, &by(0, 10)).unwrap();
    env.run(|txn| pages.apply(txn, 0, ADD, &by(1, 100))).unwrap();
    let later = machine.after_a_power_cut();
    let before = later.contents();
    let refused = later.start(Env::builder());
    match refused.map(|_| ()) {
        Err(Error::LogType { code: ADD, name, what }) => {
            assert_eq!(name, "counter add");
            assert!(what.contains("\"counter add\" (code 7)"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    let other = LogType::new(ADD, "another", |_, _| Ok(()));
    assert!(message_of(later.start(Env::builder().log_type(other)).map(|_| ()))
        .contains("registered \"another\" with that code"));
    assert!(later.contents() == before, "the refused restart has changed a file");
    let env = later.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!((counter(&env, &pages, 0).unwrap(), counter(&env, &pages, 1).unwrap()), (1, 100));
}

#[test]
fn a_restart_without_a_log_type_is_refused_even_if_nothing_must_be_undone() {
    let machine = Machine::new();
    let env = machine.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    env.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let later = machine.after_a_power_cut();
    assert!(message_of(later.start(Env::builder()).map(|_| ())).contains("\"counter add\" (code 7)"));
    drop(later.start(knowing()).unwrap());
    // After an orderly close, a restart redoes and undoes nothing, so it needs no type.
    drop(later.start(Env::builder()).unwrap());
}

#[test]
fn a_process_without_a_log_type_leaves_the_undo_to_a_process_with_the_type() {
    let machine = Machine::new();
    let other = machine.start(Env::builder()).unwrap();
    let (theirs, table) = (other.pages("pages").unwrap(), other.btree("table").unwrap());
    let victim = machine.start(knowing()).unwrap();
    let pages = victim.pages("pages").unwrap();
    victim.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let open = victim.begin().unwrap();
    pages.apply(&open, 0, ADD, &by(0, 10)).unwrap();
    open.die();
    for _ in 0..3 {
        // This process cannot undo the change. So the change and its lock stay.
        let _ = other.managers().reap();
        assert!(matches!(counter(&other, &theirs, 0), Err(Error::LockTimeout(_))));
        other.run(|txn| table.put(txn, b"key", b"value")).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !matches!(counter(&other, &theirs, 0), Ok(1)) {
        assert!(Instant::now() < deadline, "the process with the type does not undo the change");
        let _ = victim.managers().reap();
    }
    assert_eq!(other.repairs().rebuilds, 0);
}

#[test]
fn the_last_process_to_leave_without_a_log_type_keeps_the_changes_that_need_the_type() {
    let machine = Machine::new();
    let victim = machine.start(knowing()).unwrap();
    let pages = victim.pages("pages").unwrap();
    victim.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let other = machine.start(Env::builder()).unwrap();
    let open = victim.begin().unwrap();
    pages.apply(&open, 0, ADD, &by(0, 10)).unwrap();
    open.die();
    let _ = other.managers().reap();
    drop((pages, victim, other));
    let env = machine.start(knowing()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!(counter(&env, &pages, 0).unwrap(), 1);
}

#[test]
fn objects_that_the_program_names_are_locked() {
    let machine = Machine::new();
    let env = machine.start(Env::builder()).unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    one.lock(b"printer", Mode::X).unwrap();
    two.lock(b"plotter", Mode::X).unwrap();
    assert!(matches!(two.lock(b"printer", Mode::S), Err(Error::LockTimeout(_))));
    one.lock_downgrade(b"printer", Mode::S).unwrap();
    two.lock(b"printer", Mode::S).unwrap();
    one.unlock(b"printer").unwrap();
    assert!(message_of(one.unlock(b"printer")).contains("the program's object"));
    two.lock(b"printer", Mode::X).unwrap();
    two.commit().unwrap();
    one.lock(b"printer", Mode::X).unwrap();
    one.abort().unwrap();
}

#[test]
fn types_with_the_same_number_are_refused() {
    let machine = Machine::new();
    assert!(message_of(machine.start(knowing().log_type(adding())).map(|_| ()))
        .contains("two log-record types have the code 7"));
    let nameless = LogType::new(1, "", |_, _| Ok(()));
    assert!(message_of(machine.start(Env::builder().log_type(nameless)).map(|_| ())).contains("1 to 64 bytes"));
}

#[test]
fn a_panic_of_a_function_of_the_program_is_a_refusal() {
    let machine = Machine::new();
    let wild = LogType::new(9, "wild", |_, _| panic!("for a test"));
    let env = machine.start(Env::builder().log_type(wild)).unwrap();
    let pages = env.pages("pages").unwrap();
    let txn = env.begin().unwrap();
    assert!(message_of(pages.apply(&txn, 0, 9, &[]))
        .contains("\"wild\" (code 9) refused: the function panicked: for a test"));
    assert_eq!(pages.count(&txn).unwrap(), 0);
    txn.commit().unwrap();
}

/// On pages of 64 KiB, log records cannot name the offset after the last byte.
#[test]
fn a_change_of_nothing_is_logged_and_undone_on_the_longest_pages() {
    let machine = Machine::new();
    let sets_a_byte = LogType::new(1, "sets a byte", |page, _| {
        page[0] = 1;
        Ok(())
    });
    let sets_a_byte = sets_a_byte.undo(|_, _| Ok(()));
    let types = || {
        Env::builder()
            .log_type(sets_a_byte.clone())
            .log_type(LogType::new(2, "does nothing", |_, _| Ok(())))
            .page_size("pages", libtp::Bytes::kib(64))
    };
    let env = machine.start(types()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!(pages.page_bytes(), 65536 - 32);
    for kind in [1, 2] {
        for is_kept in [false, true] {
            let txn = env.begin().unwrap();
            pages.apply(&txn, 0, kind, &[]).unwrap();
            match is_kept {
                true => txn.commit().unwrap(),
                false => txn.abort().unwrap(),
            }
        }
    }
    let machine = machine.after_a_power_cut();
    let env = machine.start(types()).unwrap();
    let pages = env.pages("pages").unwrap();
    assert_eq!(env.run(|txn| pages.get(txn, 0)).unwrap().bytes[..2], [1, 0]);
    assert!(env.verify("pages").unwrap().findings.is_empty());
}

#[test]
fn changes_undone_by_bytes_are_undone_without_the_type() {
    let machine = Machine::new();
    let bytes_back = || Env::builder().log_type(LogType::new(ADD, "counter add", |page, by| change(page, by, 1)));
    let other = machine.start(Env::builder()).unwrap();
    let theirs = other.pages("pages").unwrap();
    let victim = machine.start(bytes_back()).unwrap();
    let pages = victim.pages("pages").unwrap();
    victim.run(|txn| pages.apply(txn, 0, ADD, &by(0, 1))).unwrap();
    let open = victim.begin().unwrap();
    pages.apply(&open, 0, ADD, &by(0, 10)).unwrap();
    open.die();
    other.managers().reap().unwrap();
    assert_eq!(counter(&other, &theirs, 0).unwrap(), 1);
    assert_eq!(other.repairs().rebuilds, 0);
}

#[test]
fn a_read_lock_is_released_also_if_the_database_is_locked_as_a_whole() {
    let machine = Machine::new();
    let env = machine.start(Env::builder()).unwrap();
    let pages = env.pages("pages").unwrap();
    let txn = env.begin().unwrap();
    for number in 0..120_000 {
        pages.lock(&txn, number, PageLock::Read).unwrap();
    }
    // There were too many locks on pages, so one lock on the whole database has replaced them.
    let another = env.begin().unwrap();
    assert!(matches!(pages.lock(&another, 7_000_000, PageLock::Write), Err(Error::LockTimeout(_))));
    pages.unlock(&txn, 119_999).unwrap();
    txn.commit().unwrap();
}
