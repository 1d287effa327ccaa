//! Settings that make no sense, for which the error must name the file and the word, and small sizes, which must work.

use std::time::Duration;

use libtp::{Bytes, Durability, Env, Error, OpenedBy, Settings};

use crate::error_texts::{check_value, key_of, refused, says, value_of};

#[test]
fn a_settings_file_with_an_unknown_word_is_refused_and_named() {
    for (text, word) in [
        ("memry = 3", "memry"),
        ("memory = \"3 parsecs\"", "parsecs"),
        ("durability = \"eventually\"", "eventually"),
        ("[database.accounts]\ngranularity = \"table\"", "table"),
        ("memory = [", "1"),
        ("recovery_threads = 8700", "8700"),
        ("detached_timeout_millis = 9223372036854775807", "detached_timeout_millis"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("libtp.toml"), text).unwrap();
        let error = refused(directory.path());
        assert!(matches!(error, Error::Settings { .. }), "{error}");
        says(&error, &["libtp.toml", word]);
        assert!(!directory.path().join("control").exists(), "an environment was made in spite of the refused settings");
    }
}

#[test]
fn a_settings_file_of_more_than_a_mebibyte_is_refused_and_not_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let comment = "#".repeat((1 << 20) - 1);
    std::fs::write(directory.path().join("libtp.toml"), format!("{comment}\nmemory = \"64MiB\"\n")).unwrap();
    says(&refused(directory.path()), &["libtp.toml", "1048593 bytes", "1048576"]);
    assert!(!directory.path().join("control").exists(), "an environment was made in spite of the refused settings");
}

#[test]
fn a_settings_file_that_is_no_text_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("libtp.toml"), [0xff, 0xfe, 0, 1]).unwrap();
    says(&refused(directory.path()), &["libtp.toml", "UTF-8"]);
}

#[test]
fn impossible_segment_sizes_are_refused() {
    let sizes = [(0, 0), (1000, 4096), (1 << 20, 1 << 16), (1 << 50, 1 << 50), (3 << 20, 64 << 20)];
    for (first, max) in sizes {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            log_segment_first: Some(Bytes(first)),
            log_segment_max: Some(Bytes(max)),
            ..Settings::default()
        };
        let error = Env::builder().settings(settings).open(directory.path()).unwrap_err();
        says(&error, &["log_segment"]);
        assert_eq!(
            Env::open_or_create(directory.path()).unwrap().opened().how,
            OpenedBy::Created,
            "the refused opening must make no environment"
        );
    }
}

#[test]
fn the_least_values_of_the_settings_are_enough() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        checkpoint_log: Some(Bytes(0)),
        log_delay: Some(Bytes(0)),
        relaxed_millis: Some(0),
        group_threshold: Some(0),
        wait_threshold_percent: Some(100),
        ..Settings::default()
    };
    let env = Env::builder()
        .settings(settings)
        .memory(Bytes::kib(64))
        .own_pool("own", Bytes::kib(64))
        .open(directory.path())
        .unwrap();
    for name in ["table", "own"] {
        let table = env.btree(name).unwrap();
        for number in 0..400 {
            env.run_with(Durability::Relaxed, |txn| table.put(txn, &key_of(number), &value_of(number, 900))).unwrap();
        }
        env.run(|txn| (0..400).try_for_each(|number| check_value(&table, txn, number, 900))).unwrap();
    }
}

#[test]
fn with_a_lock_timeout_of_zero_a_lock_that_is_not_free_is_an_error_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::ZERO).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    table.put(&one, b"key", b"1").unwrap();
    assert!(matches!(table.get(&two, b"key"), Err(Error::LockTimeout(_))));
    one.commit().unwrap();
}

#[test]
fn the_directories_in_the_settings_file_are_used() {
    let directory = tempfile::tempdir().unwrap();
    let (log, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = format!("log_directory = {:?}\nregion_directory = {:?}\n", log.path(), memory.path());
    std::fs::write(directory.path().join("libtp.toml"), text).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
    assert!(log.path().join("log.00000001").exists());
    assert!(!directory.path().join("log.00000001").exists());
    let region = env.stats().unwrap().region;
    assert!(region.starts_with(&memory.path().display().to_string()), "{region}");
    drop((table, env));
    assert_eq!(
        std::fs::read_dir(memory.path()).unwrap().count(),
        0,
        "the last process to leave must remove the shared memory"
    );
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
}
