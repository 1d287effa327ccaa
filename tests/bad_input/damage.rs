//! Files that are truncated, or whose bytes are zeroed or changed. Reads must return the stored value, or an error that
//! names file and page. A damaged log or control file must stop the opening and stay unchanged. When the right bytes
//! are back, all records must be there.

use std::fs;
use std::path::{Path, PathBuf};

use libtp::{Env, Error, OpenedBy};
use libtp_record::hash::page::BucketPage;

use crate::child::{fill_and_die, Dead, VALUE_BYTES};
use crate::error_texts::{check_value, key_of, refused, says, value_of};

/// The default size of a page.
const PAGE: usize = 8192;
const COUNT: u64 = 600;

/// Makes an environment and closes it cleanly.
fn closed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let (table, other) = (env.btree("table").unwrap(), env.btree("other").unwrap());
    for first in (0..COUNT).step_by(50) {
        let put = |one| {
            move |txn: &libtp::Txn<'_>, table: &libtp::Db| table.put(txn, &key_of(one), &value_of(one, VALUE_BYTES))
        };
        env.run(|txn| (first..first + 50).try_for_each(|one| put(one)(txn, &table))).unwrap();
    }
    env.run(|txn| other.put(txn, b"other", b"safe")).unwrap();
    drop((table, other, env));
    directory
}

/// The number of records of an environment whose log must be replayed. The log has a second segment, which proves the
/// length of the first.
const LOGGED: u64 = 1_200;

/// Makes an environment whose process has died and whose shared memory is removed, so the log must be replayed.
fn crashed() -> (tempfile::TempDir, Dead) {
    let directory = tempfile::tempdir().unwrap();
    let dead = fill_and_die(directory.path(), Some(LOGGED));
    fs::remove_file(&dead.region).unwrap();
    (directory, dead)
}

/// Checks that the first `count` records are there and that the database is not damaged.
fn check(directory: &Path, count: u64) {
    let env = Env::open_or_create(directory).unwrap();
    assert!([OpenedBy::Clean, OpenedBy::Restarted].contains(&env.opened().how), "{:?}", env.opened());
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..count).try_for_each(|one| check_value(&table, txn, one, VALUE_BYTES))).unwrap();
    assert!(env.verify("table").unwrap().findings.is_empty());
}

/// The result of reading all records of a damaged environment.
struct Reading {
    good: u64,
    errors: Vec<Error>,
}

/// Reads every key in a transaction of its own. Each read must return the right value or an error.
fn read_all(directory: &Path) -> Reading {
    let env = match Env::open_or_create(directory) {
        Ok(env) => env,
        Err(error) => return Reading { good: 0, errors: vec![error] },
    };
    let mut reading = Reading { good: 0, errors: Vec::new() };
    match env.btree("other").map(|other| env.run(|txn| other.get(txn, b"other"))) {
        Ok(Ok(found)) => assert_eq!(found.as_deref(), Some(&b"safe"[..])),
        Ok(Err(error)) | Err(error) => panic!("a database that is not damaged cannot be read: {error}"),
    }
    let table = match env.btree("table") {
        Ok(table) => table,
        Err(error) => return Reading { good: 0, errors: vec![error] },
    };
    for one in 0..COUNT {
        match env.run(|txn| check_value(&table, txn, one, VALUE_BYTES)) {
            Ok(()) => reading.good += 1,
            Err(error) => reading.errors.push(error),
        }
    }
    reading
}

/// Damages a page of a closed environment, and checks that reads of the page fail with an error that names it.
#[track_caller]
fn page_is_named(page: usize, damage: impl Fn(&mut [u8])) {
    let directory = closed();
    let file = directory.path().join("table.tp");
    let mut bytes = fs::read(&file).unwrap();
    damage(&mut bytes[page * PAGE..(page + 1) * PAGE]);
    fs::write(&file, bytes).unwrap();
    let reading = read_all(directory.path());
    assert!(!reading.errors.is_empty(), "damage to page {page} was not noticed: {} keys read", reading.good);
    for error in &reading.errors {
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        says(error, &["table.tp", &format!("page {page}")]);
    }
}

/// Returns the page number of a leaf in the middle of the file.
fn a_leaf() -> usize {
    let directory = closed();
    let bytes = fs::read(directory.path().join("table.tp")).unwrap();
    let pages = bytes.len() / PAGE;
    // A page's kind and level are bytes 20 and 21 of its header. Leaves are the most frequent pages.
    let kinds: Vec<(u8, u8)> = (0..pages).map(|page| (bytes[page * PAGE + 20], bytes[page * PAGE + 21])).collect();
    let frequent = kinds.iter().copied().max_by_key(|kind| kinds.iter().filter(|one| *one == kind).count()).unwrap();
    let leaves: Vec<usize> = (0..pages).filter(|&page| page > 2 && kinds[page] == frequent).collect();
    leaves[leaves.len() / 2]
}

#[test]
fn a_flipped_bit_in_a_page_is_an_error_that_names_the_page() {
    let page = a_leaf();
    for place in [3, 9, 100, 4000, PAGE - 1] {
        page_is_named(page, |bytes| bytes[place] ^= 0x10);
    }
}

#[test]
fn a_zeroed_page_is_an_error_that_names_the_page() {
    page_is_named(a_leaf(), |bytes| bytes.fill(0));
}

#[test]
fn half_a_page_of_zeros_is_an_error_that_names_the_page() {
    page_is_named(a_leaf(), |bytes| bytes[PAGE / 2..].fill(0));
}

#[test]
fn garbage_in_a_page_is_an_error_that_names_the_page() {
    page_is_named(a_leaf(), |bytes| bytes.fill(0xdb));
}

#[test]
fn a_page_in_the_place_of_another_page_is_an_error_that_names_the_page() {
    let directory = closed();
    let page = a_leaf();
    let file = directory.path().join("table.tp");
    let mut bytes = fs::read(&file).unwrap();
    let moved = bytes[(page + 1) * PAGE..(page + 2) * PAGE].to_vec();
    bytes[page * PAGE..(page + 1) * PAGE].copy_from_slice(&moved);
    fs::write(&file, bytes).unwrap();
    let reading = read_all(directory.path());
    assert!(!reading.errors.is_empty());
    reading.errors.iter().for_each(|error| says(error, &["table.tp", &format!("page {page}")]));
}

/// Links the last page of a bucket to the page before it, or to itself. An outdated page on the disk can have such a
/// link. Returns the number of the changed page.
fn lead_in_a_circle(bytes: &mut [u8], is_to_itself: bool) -> usize {
    let next_of = |page: usize| {
        let node = BucketPage::over(&bytes[page * PAGE..(page + 1) * PAGE]).filter(BucketPage::is_further)?;
        node.next().map(|next| (page, usize::try_from(next).unwrap()))
    };
    let pairs: Vec<(usize, usize)> = (1..bytes.len() / PAGE).filter_map(next_of).collect();
    let (before, page) = *pairs.iter().find(|(_, next)| next_of(*next).is_none()).expect("a bucket of three pages");
    let leads_to = u32::try_from(if is_to_itself { page } else { before }).unwrap();
    let damaged = &mut bytes[page * PAGE..(page + 1) * PAGE];
    damaged[36..40].copy_from_slice(&leads_to.to_le_bytes());
    libtp_buffer::seal(damaged);
    assert_eq!(BucketPage::over(damaged).unwrap().next(), Some(leads_to));
    page
}

#[test]
fn a_bucket_with_a_circle_of_pages_stops_no_reader() {
    // A page has room for few records, so some buckets have three pages before the file grows.
    let value = |one| value_of(one, 1_900);
    for is_to_itself in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.hash("table").unwrap();
        (0..COUNT).for_each(|one| env.run(|txn| table.put(txn, &key_of(one), &value(one))).unwrap());
        drop((table, env));
        let file = directory.path().join("table.tp");
        let mut bytes = fs::read(&file).unwrap();
        let page = lead_in_a_circle(&mut bytes, is_to_itself);
        fs::write(&file, bytes).unwrap();

        // Puts the same number of records again, so that each bucket needs room and is split.
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.hash("table").unwrap();
        let mut refused = [0; 2];
        for one in 0..2 * COUNT {
            let put = env.run(|txn| match one < COUNT {
                true => table.get(txn, &key_of(one)).map(|found| assert_eq!(found, Some(value(one)))),
                false => table.put(txn, &key_of(one), &value(one)),
            });
            if let Err(error) = put {
                says(&error, &["page", "table.tp", "bucket"]);
                refused[usize::from(one >= COUNT)] += 1;
            }
        }
        let [gets, puts] = refused;
        assert!(puts > 0, "page {page} is in a circle, and no put reported it ({gets} gets did)");
        assert!(gets + puts < COUNT / 4, "{gets} gets and {puts} puts failed because of one bucket");
    }
}

#[test]
fn a_database_file_that_is_cut_is_an_error_that_names_it() {
    let whole = fs::metadata(closed().path().join("table.tp")).unwrap().len();
    let page = PAGE as u64;
    for length in [0, 100, page - 1, page, page + 17, whole / 2 / page * page, whole / 2 + 100] {
        let directory = closed();
        let file = fs::OpenOptions::new().write(true).open(directory.path().join("table.tp")).unwrap();
        file.set_len(length).unwrap();
        let reading = read_all(directory.path());
        assert!(
            !reading.errors.is_empty(),
            "a file cut to {length} bytes was not noticed, {} keys were read",
            reading.good
        );
        for error in &reading.errors {
            says(error, &["table.tp"]);
        }
    }
}

#[test]
fn verify_reports_a_damaged_page() {
    let directory = closed();
    let page = a_leaf();
    let file = directory.path().join("table.tp");
    let mut bytes = fs::read(&file).unwrap();
    bytes[page * PAGE + 5000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let findings = env.verify("table").unwrap().findings;
    let number = u32::try_from(page).unwrap();
    assert!(findings.iter().any(|finding| finding.page == number), "page {page} is not among {findings:?}");
    assert!(env.verify("other").unwrap().findings.is_empty());
}

/// Returns the end of the log in a file: the offset after its last byte that is not zero.
fn log_end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)
}

fn first_segment(directory: &Path) -> PathBuf {
    directory.join("log.00000001")
}

/// Damages a log that must be replayed. The opening must fail with an error that names the file and the LSN. With the
/// right bytes back, all acknowledged records must be there.
#[track_caller]
fn log_is_named(damage: impl Fn(&mut Vec<u8>, usize)) {
    let (directory, dead) = crashed();
    let file = first_segment(directory.path());
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let end = log_end(&good);
    assert!(end > 100_000, "the log is too short, so the test shows nothing");
    damage(&mut bad, end);
    fs::write(&file, &bad).unwrap();
    // Opens the environment twice, because a refused log must be refused again.
    for _ in 0..2 {
        let error = refused(directory.path());
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        says(&error, &["log.00000001", "LSN"]);
    }
    fs::write(&file, &good).unwrap();
    check(directory.path(), dead.acknowledged);
}

#[test]
fn a_flipped_bit_in_the_middle_of_the_log_is_never_a_silent_end() {
    for part in [3, 2] {
        log_is_named(|bytes, end| bytes[4096 + (end - 4096) / part] ^= 0x04);
    }
}

#[test]
fn a_zeroed_block_in_the_middle_of_the_log_is_never_a_silent_end() {
    log_is_named(|bytes, end| {
        let at = end / 2 / 4096 * 4096;
        bytes[at..at + 4096].fill(0);
    });
}

#[test]
fn a_log_that_is_zero_from_its_middle_on_is_never_a_silent_end() {
    // Another segment, or the control file, proves that the log had more records. Only the loss of the last flush
    // cannot be noticed.
    let (directory, dead) = crashed();
    assert!(directory.path().join("log.00000002").exists(), "the log is too short for this test");
    let file = first_segment(directory.path());
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle..].fill(0);
    fs::write(&file, &bad).unwrap();
    says(&refused(directory.path()), &["log.00000001", "LSN"]);
    fs::write(&file, &good).unwrap();
    check(directory.path(), dead.acknowledged);
}

#[test]
fn a_log_segment_that_is_cut_is_an_error_that_names_it() {
    for part in [2, 4] {
        let (directory, dead) = crashed();
        let file = first_segment(directory.path());
        let good = fs::read(&file).unwrap();
        fs::write(&file, &good[..good.len() / part]).unwrap();
        says(&refused(directory.path()), &["log.00000001"]);
        fs::write(&file, &good).unwrap();
        check(directory.path(), dead.acknowledged);
    }
}

#[test]
fn a_log_segment_that_is_missing_is_an_error_that_names_it() {
    let (directory, dead) = crashed();
    let (file, away) = (first_segment(directory.path()), directory.path().join("away"));
    fs::rename(&file, &away).unwrap();
    says(&refused(directory.path()), &["log.00000001"]);
    fs::rename(&away, &file).unwrap();
    check(directory.path(), dead.acknowledged);
}

#[test]
fn a_log_segment_whose_header_is_zeroed_is_an_error_that_names_it() {
    let (directory, dead) = crashed();
    let file = first_segment(directory.path());
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[..4096].fill(0);
    fs::write(&file, &bad).unwrap();
    says(&refused(directory.path()), &["log.00000001"]);
    fs::write(&file, &good).unwrap();
    check(directory.path(), dead.acknowledged);
}

#[test]
fn after_a_clean_close_damage_to_the_logs_last_bytes_is_noticed_too() {
    let directory = closed();
    let newest = (1..).map(|number| directory.path().join(format!("log.{number:08}"))).take_while(|path| path.exists());
    let (file, good) = newest
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .filter(|(_, bytes)| log_end(bytes) > 4096)
        .last()
        .unwrap();
    let mut bad = good.clone();
    let end = log_end(&good);
    bad[end - 3] ^= 1;
    fs::write(&file, &bad).unwrap();
    for _ in 0..2 {
        says(&refused(directory.path()), &[file.file_name().unwrap().to_str().unwrap(), "LSN"]);
    }
    fs::write(&file, &good).unwrap();
    check(directory.path(), COUNT);
}

#[test]
fn one_damaged_half_of_the_control_file_loses_nothing() {
    for half in [1, 2] {
        for is_zeroed in [false, true] {
            let (directory, dead) = crashed();
            let file = directory.path().join("control");
            let mut bytes = fs::read(&file).unwrap();
            match is_zeroed {
                true => bytes[half * 4096..(half + 1) * 4096].fill(0),
                false => bytes[half * 4096 + 50] ^= 8,
            }
            fs::write(&file, bytes).unwrap();
            check(directory.path(), dead.acknowledged);
        }
    }
}

/// Damages the control file so that it cannot be used. The opening must fail, and must not replace the file.
#[track_caller]
fn control_is_named(damage: impl Fn(&mut Vec<u8>)) {
    let directory = closed();
    let file = directory.path().join("control");
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    damage(&mut bad);
    fs::write(&file, &bad).unwrap();
    says(&refused(directory.path()), &["control"]);
    assert!(fs::read(&file).unwrap() == bad, "the control file was changed by a refused opening");
    fs::write(&file, &good).unwrap();
    check(directory.path(), COUNT);
}

#[test]
fn a_control_file_with_both_halves_damaged_is_refused_and_named() {
    control_is_named(|bytes| (bytes[4096 + 60], bytes[8192 + 60]) = (0xee, 0xee));
    control_is_named(|bytes| bytes[4096..].fill(0));
}

#[test]
fn a_control_file_with_a_damaged_front_is_refused_and_named() {
    control_is_named(|bytes| bytes[0] ^= 1);
    control_is_named(|bytes| bytes[20] ^= 1);
    control_is_named(|bytes| bytes[3000] ^= 1);
    control_is_named(|bytes| bytes[..4096].fill(0));
}

#[test]
fn a_control_file_that_is_all_zeros_is_refused_and_named() {
    control_is_named(|bytes| bytes.fill(0));
}

#[test]
fn a_control_file_that_is_cut_is_refused_and_named() {
    for length in [0, 1, 7, 8, 100, 4096, 5000] {
        control_is_named(|bytes| bytes.truncate(length));
    }
}

#[test]
fn garbage_in_the_double_write_file_loses_nothing() {
    let (directory, dead) = crashed();
    let known = ["control", "databases", "table.tp", "other.tp"];
    let is_known = |name: &str| known.contains(&name) || name.starts_with("log.");
    let mut others = 0;
    for entry in fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if !is_known(&name) {
            others += 1;
            let length = usize::try_from(entry.metadata().unwrap().len()).unwrap();
            fs::write(entry.path(), vec![0xc3; length]).unwrap();
        }
    }
    assert!(others > 0, "no double-write file was found");
    check(directory.path(), dead.acknowledged);
}
