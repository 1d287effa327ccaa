//! The advice of errors: each names the cause once, and following it loses nothing.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::fs;
use std::path::{Path, PathBuf};

use libtp::Env;
use tempfile::{tempdir, TempDir};
use tp::{tp, tp_reading, tp_words, Finished};

const PAGE: usize = 8192;

/// An environment with a B-tree `stock` of 500 records in several pages, and the directory around it.
fn with_stock() -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("env");
    let env = Env::open_or_create(&path).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| (0..500_u32).try_for_each(|key| stock.put(txn, &key.to_be_bytes(), &[7; 100]))).unwrap();
    drop((stock, env));
    (directory, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn says(finished: &Finished, code: i32, words: &[&str]) {
    let told = finished.refused(code);
    for word in words {
        assert!(told.contains(word), "{word:?} is not in: {told}");
    }
}

/// Changes bytes of a file from `at` on.
fn overwrite(file: &Path, at: usize, bytes: &[u8]) {
    let mut whole = fs::read(file).unwrap();
    whole[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(file, whole).unwrap();
}

#[test]
fn a_damaged_page_is_reported_with_restore_and_salvage_and_never_with_the_copy_of_one_file() {
    let (_directory, env) = with_stock();
    for page in 2..5 {
        overwrite(&env.join("stock.tp"), page * PAGE + 4000, &[0xff, 0, 0xff]);
    }
    says(
        &tp("dump", &env, &["stock"]),
        1,
        &["stock.tp is damaged", "`tp restore`", "`tp salvage`", "Do not copy a single file"],
    );
}

#[test]
fn a_copy_under_another_name_is_not_renamed_over_the_good_file() {
    let (_directory, env) = with_stock();
    fs::copy(env.join("stock.tp"), env.join("hash2.tp")).unwrap();
    says(
        &tp("get", &env, &["hash2", "x"]),
        1,
        &["number of the database `stock`", "move it away", "Only if stock.tp is missing"],
    );
}

#[test]
fn the_pages_that_a_cut_file_lacks_are_a_loss_of_salvage() {
    let (directory, env) = with_stock();
    let (cut, other) = (directory.path().join("stock.tp"), directory.path().join("other"));
    let whole = fs::read(env.join("stock.tp")).unwrap();
    fs::write(&cut, &whole[..4 * PAGE]).unwrap();
    let salvaged = tp("salvage", &other, &[text(&cut), "part"]);
    let told = String::from_utf8_lossy(&salvaged.out).into_owned();
    assert_eq!(salvaged.code, Some(1), "{told}");
    assert!(told.contains("page 4: this page and the later pages up to page ") && told.contains("1 loss"), "{told}");
}

#[test]
fn the_salvage_of_a_file_that_is_no_database_names_only_that_file() {
    let (directory, env) = with_stock();
    let script = directory.path().join("r.sh");
    fs::write(&script, "exit\n".repeat(4000)).unwrap();
    let refused = tp("salvage", &env, &[text(&script), "part"]);
    says(&refused, 1, &["r.sh", "does not begin like a database file"]);
    assert!(
        !refused.err.contains("r.sh.tp") && refused.err.matches("nothing was changed").count() == 1,
        "{}",
        refused.err
    );
}

#[test]
fn an_unreadable_database_is_listed_as_unreadable_and_can_be_dropped_as_advised() {
    let (directory, env) = with_stock();
    tp("put", &env, &["other", "key", "value"]).text();
    let file = env.join("stock.tp");
    overwrite(&file, 8, &[0xff; 64]);
    let listed = tp("list", &env, &[]);
    assert!(String::from_utf8_lossy(&listed.out).contains("stock\tunreadable"), "{}", listed.err);
    assert!(listed.err.contains("stock: "), "{}", listed.err);
    // All other databases are verified.
    let verified = tp("verify", &env, &[]);
    let told = String::from_utf8_lossy(&verified.out).into_owned();
    assert_eq!(verified.code, Some(1), "{told}{}", verified.err);
    assert!(told.contains("stock: ") && told.contains("2 databases, 1 records, 1 findings"), "{told}");
    says(&tp("drop", &env, &["stock", "--missing"]), 1, &["stock.tp is not missing", "move stock.tp away"]);
    fs::rename(&file, directory.path().join("away.tp")).unwrap();
    tp("drop", &env, &["stock", "--missing"]).text();
    assert!(!tp("list", &env, &[]).text().contains("stock"));
}

#[test]
fn an_incomplete_backup_is_refused_before_anything_is_made() {
    let (directory, env) = with_stock();
    let [backup, new] = ["backup", "new"].map(|name| directory.path().join(name));
    says(&tp("backup", &env, &["--incremental", text(&backup)]), 1, &["does not exist", "full backup first"]);
    assert!(!backup.exists(), "a refused backup has made its directory");
    let inside = env.join("copies/one");
    says(&tp("backup", &env, &[text(&inside)]), 1, &["inside of", "nothing was changed"]);
    assert!(!env.join("copies").exists(), "a refused backup has made its directory");
    tp("backup", &env, &[text(&backup)]).text();
    let log = fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path());
    let log = log.into_iter().find(|path| text(path).contains("log.")).unwrap();
    let kept = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    says(&tp_words(&["backup", "--check", text(&backup)], b""), 1, &["the log of the backup", "use another backup"]);
    fs::write(&log, kept).unwrap();
    fs::remove_file(backup.join("stock.tp")).unwrap();
    for refused in [tp("restore", &new, &[text(&backup)]), tp_words(&["backup", "--check", text(&backup)], b"")] {
        says(&refused, 1, &["is incomplete", "stock.tp is missing", "Use another backup"]);
    }
    assert!(!new.exists(), "a refused restore has made its directory");
}

#[test]
fn the_remains_of_a_failed_restore_are_named_as_remains() {
    let (directory, env) = with_stock();
    let [backup, new] = ["backup", "new"].map(|name| directory.path().join(name));
    tp("backup", &env, &[text(&backup)]).text();
    overwrite(&backup.join("stock.tp"), 3 * PAGE + 4000, &[0xff, 0, 0xff]);
    says(&tp("restore", &new, &[text(&backup)]), 1, &["restore another backup", "is no environment: remove it"]);
    for refused in [tp("restore", &new, &[text(&backup)]), tp("list", &new, &[]), tp("get", &new, &["stock", "x"])] {
        says(&refused, 1, &["a restore of a backup into it was not finished", "Remove the directory"]);
    }
}

#[test]
fn the_bounds_of_a_backup_are_told_in_the_form_in_which_the_user_asks() {
    let (directory, env) = with_stock();
    let [backup, new] = ["backup", "new"].map(|name| directory.path().join(name));
    tp("backup", &env, &[text(&backup)]).text();
    says(
        &tp("restore", &new, &[text(&backup), "--until", "2020-01-01"]),
        1,
        &["a place in the log", "which was logged by 20"],
    );
    says(
        &tp("restore", &new, &[text(&backup), "--until", "2099-01-01"]),
        1,
        &["its log ends at 20", "Z, before the wanted time"],
    );
}

#[test]
fn a_load_names_the_kind_of_the_database_and_not_of_the_dump() {
    let (_directory, env) = with_stock();
    tp("put", &env, &["hashed", "key", "value", "--hash"]).text();
    let dump = tp("dump", &env, &["stock"]);
    assert!(tp_reading("load", &env, &["hashed"], &dump.out).text().contains("into hashed (hash)"));
    let loaded = tp_reading("load", &env, &["hashed", "--json"], &dump.out).result();
    assert_eq!(loaded["type"], "hash");
    says(&tp("put", &env, &["stock", "key", "value", "--hash"]), 2, &["`stock` exists and is not a hash file"]);
    says(&tp("put", &env, &["hashed", "key", "value", "--list"]), 2, &["`hashed` exists and is not a list"]);
}

#[test]
fn a_demonstration_is_refused_where_the_user_has_other_databases() {
    let (_directory, env) = with_stock();
    says(&tp("demo", &env, &["--seconds", "1"]), 1, &["other databases, such as `stock`", "nothing was changed"]);
    assert_eq!(tp("list", &env, &[]).text().lines().count(), 1);
}

#[test]
fn a_command_line_that_is_wrong_is_answered_with_a_sentence() {
    let (directory, env) = with_stock();
    let shell = |line: &str| tp_reading("shell", &env, &[], line.as_bytes());
    let place = text(directory.path());
    for (refused, code, words) in [
        (tp("printlog", &env, &["--limit", "many"]), 2, ["give a whole number", "tp: "]),
        (tp("abort", &env, &["x"]), 2, ["give a whole number", "tp: "]),
        (tp("abort", &env, &["39937"]), 1, ["transaction 39937: it was not aborted", "only a detached transaction"]),
        (tp("compact", &env, &["--fill", "0"]), 2, ["10..=100", "tp: "]),
        (tp("load", &env, &["new", "--fill", "5"]), 2, ["10..=100", "tp: "]),
        (tp("load", &env, &["new", place]), 1, ["is a directory, not a dump", "nothing was loaded"]),
        (tp("load", &env, &["new", "nofile"]), 1, ["cannot open nofile", "nothing was loaded"]),
        (tp_words(&["vista", "verify", place], b""), 1, ["is a directory", "nothing was changed"]),
        (
            tp_words(&["vista", "verify", text(&env.join("stock.tp"))], b""),
            1,
            ["does not begin like", "check the path"],
        ),
        (tp("files", &env, &["--forget", "/x"]), 1, ["tp: no change of /x is waiting", "nothing was changed"]),
        (shell("get stock\n"), 1, ["`get` was given too few", "get DATABASE KEY"]),
        (shell("got stock\n"), 1, ["`got` is not a command", "`help` lists"]),
        (tp("put", &env, &["stock", &"k".repeat(5000), "v"]), 1, ["stock", "larger pages"]),
    ] {
        says(&refused, code, &words);
    }
    let refused = tp("scan", &env, &["stock", "--limit", "x", "--json"]);
    assert!(refused.json()[0]["error"].as_str().unwrap().contains("give a whole number"));
    assert_eq!(refused.code, Some(2));
}

#[test]
fn settings_that_cannot_take_effect_are_refused() {
    for (line, words) in [
        ("memory = \"1KiB\"", ["memory is 1024", "nothing was changed"]),
        ("wait_threshold_percent = 200", ["wait_threshold_percent is 200", "nothing was changed"]),
        ("keep_log = -1", ["libtp.toml, line 1 (`keep_log = -1`)", "nothing was changed"]),
    ] {
        let (_directory, env) = with_stock();
        fs::write(env.join("libtp.toml"), line).unwrap();
        says(&tp("get", &env, &["stock", "x"]), 1, &words);
        let new = tempdir().unwrap();
        fs::write(new.path().join("libtp.toml"), line).unwrap();
        says(&tp("put", new.path(), &["stock", "x", "1"]), 1, &words);
        assert!(!new.path().join("control").exists(), "{line}: an environment was made");
    }
}
