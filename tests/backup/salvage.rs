//! Files with damaged pages. Every readable record must be salvaged, and every unreadable page must be reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use libtp::{Bytes, DatabaseSettings, Duplicates, Env, Settings};
use libtp_sim::Random;
use libtp_tests::sizes;

const PAGE_BYTES: usize = 4096;

fn made(directory: &Path) -> Env {
    let small = || DatabaseSettings { page_bytes: Some(Bytes::kib(4)), ..DatabaseSettings::default() };
    let database = ["tree", "hash", "cells", "lists", "lines"].map(|name| (name.to_owned(), small())).into();
    let settings = Settings { no_background: true, database, ..Settings::default() };
    Env::builder().settings(settings).open(directory).unwrap()
}

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn fill(env: &Env) {
    let (tree, hash, cells) = (env.btree("tree").unwrap(), env.hash("hash").unwrap(), env.recno("cells", 60).unwrap());
    let lists = env.multi("lists", Duplicates::AsTheyCame).unwrap();
    let lines = env.list("lines").unwrap();
    let mut random = Random::new(11);
    for batch in 0..20_u64 {
        env.run(|txn| {
            for key in batch * 30..batch * 30 + 30 {
                let length = if key % 25 == 0 { 9000 } else { random.below(300) };
                let value = vec![key.to_le_bytes()[0]; usize::try_from(length).unwrap()];
                tree.put(txn, &key.to_be_bytes(), &value)?;
                hash.put(txn, &key.to_be_bytes(), &value)?;
                cells.append(txn, &[key.to_le_bytes()[0]; 60])?;
                lists.put(txn, &(key / 3).to_be_bytes(), &key.to_be_bytes())?;
                let line = [&key.to_be_bytes()[..], &value].concat();
                match key % 5 {
                    0 => lines.insert_before(txn, key / 2 + 1, &line)?,
                    _ => lines.append(txn, &line)?,
                };
            }
            lines.delete(txn, batch * 20 + 3)?;
            tree.delete(txn, &(batch * 30 + 7).to_be_bytes())?;
            cells.delete(txn, batch * 30 + 9)?;
            Ok(())
        })
        .unwrap();
    }
}

/// Returns every record of a database. The database `lists` has several values for a key. There, the key in the result
/// is the record's key followed by its value.
fn records(env: &Env, name: &str) -> Records {
    let txn = env.begin().unwrap();
    let mut all = Records::new();
    match name {
        "cells" => {
            let cells = env.recno(name, 60).unwrap();
            let mut cursor = cells.cursor(&txn);
            while let Some((number, value)) = cursor.next().unwrap() {
                all.insert(number.to_be_bytes().to_vec(), value);
            }
        }
        "lists" => {
            let lists = env.multi(name, Duplicates::AsTheyCame).unwrap();
            let mut cursor = lists.cursor(&txn);
            while let Some((key, value)) = cursor.next().unwrap() {
                all.insert([key, value].concat(), Vec::new());
            }
        }
        // The key of a line is its first eight bytes. Its number is no key, because it changes if other lines are lost.
        "lines" => all.extend(in_order(env).into_iter().map(|line| (line[..8].to_vec(), line[8..].to_vec()))),
        _ => {
            let db = if name == "hash" { env.hash(name).unwrap() } else { env.btree(name).unwrap() };
            let mut cursor = db.cursor(&txn);
            while let Some((key, value)) = cursor.next().unwrap() {
                all.insert(key, value);
            }
        }
    }
    all
}

/// Returns the list's records in the order of their numbers.
fn in_order(env: &Env) -> Vec<Vec<u8>> {
    let (txn, lines) = (env.begin().unwrap(), env.list("lines").unwrap());
    let mut cursor = lines.cursor(&txn);
    let lines = std::iter::from_fn(|| cursor.next().unwrap());
    lines.map(|(_, line)| line).collect()
}

#[test]
fn salvage_copies_readable_records_and_names_lost_pages() {
    let directory = tempfile::tempdir().unwrap();
    let env = made(directory.path());
    fill(&env);
    let names = ["tree", "hash", "cells", "lists", "lines"];
    let wanted: BTreeMap<&str, Records> = names.iter().map(|name| (*name, records(&env, name))).collect();
    let wanted_lines = in_order(&env);
    drop(env);
    let mut random = Random::new(sizes::first_seed());
    let (mut damaged, mut salvaged, mut lost_records) = (0, 0, 0);
    for round in 0..sizes::number("LIBTP_TEST_WRECKS", 6) {
        let other = tempfile::tempdir().unwrap();
        let into = made(other.path());
        for name in names {
            let good = std::fs::read(directory.path().join(format!("{name}.tp"))).unwrap();
            let mut bad = good.clone();
            let pages = good.len() / PAGE_BYTES;
            let used = |page: &usize| good[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].iter().any(|byte| *byte != 0);
            // The first round damages no page, and each later round damages a few pages. Every third round also damages
            // the first page.
            let count = if round == 0 { 0 } else { 1 + random.index(5) };
            let mut hit: BTreeSet<usize> = (0..count).map(|_| 1 + random.index(pages - 1)).filter(used).collect();
            if round % 3 == 2 && name != "lists" {
                hit.insert(0);
            }
            for page in &hit {
                bad[page * PAGE_BYTES + random.index(PAGE_BYTES)] ^= 1 << random.below(8);
            }
            let wreck = other.path().join(format!("{name}.wreck.tp.old"));
            std::fs::write(&wreck, &bad).unwrap();
            let done = into.salvage(&wreck, name, &mut |_| {}).unwrap();
            let found = records(&into, name);
            let told: BTreeSet<usize> = done.lost.iter().map(|lost| lost.page as usize).collect();
            assert!(hit.is_subset(&told), "{name}: pages {hit:?} are damaged, {told:?} are reported");
            assert_eq!(done.records, found.len() as u64, "{name}");
            for (key, value) in &found {
                assert_eq!(wanted[name].get(key), Some(value), "{name}: the file did not have this record");
            }
            let is_lossless = hit.is_empty();
            let missing = wanted[name].len() - found.len();
            assert!(!is_lossless || (missing == 0 && done.lost.is_empty()), "{name}: {:?}", done.lost);
            // A page has at most 140 records.
            assert!(missing <= hit.len() * 140, "{name}: {missing} records were lost with {} damaged pages", hit.len());
            assert_eq!(into.verify(name).unwrap().findings, Vec::new());
            if name == "lists" {
                values_keep_their_order(&into);
            }
            if name == "lines" {
                let is_told = done.lost.iter().any(|lost| lost.what.contains("order of"));
                check_lines(&into, &wanted_lines, is_told);
            }
            damaged += hit.len();
            salvaged += found.len();
            lost_records += missing;
        }
    }
    println!("figures: {damaged} pages damaged, {salvaged} records salvaged, {lost_records} lost");
}

/// Checks that the salvaged values of a key keep the order of their insertion, and that values inserted later come
/// after them.
fn values_keep_their_order(env: &Env) {
    let lists = env.multi("lists", Duplicates::AsTheyCame).unwrap();
    let later = |key: u64| (key + 1_000_000).to_be_bytes().to_vec();
    let put = |txn: &libtp::Txn<'_>| {
        (0..200_u64).try_for_each(|key| lists.put(txn, &key.to_be_bytes(), &later(key)).map(|_| ()))
    };
    env.run(put).unwrap();
    let txn = env.begin().unwrap();
    for key in 0..200_u64 {
        let values = lists.values(&txn, &key.to_be_bytes()).unwrap();
        assert!(values.is_sorted() && values.last() == Some(&later(key)), "{key}: {values:?}");
    }
}

/// Checks that the salvaged records of the list keep their order, unless its loss was reported; and that the list can
/// be changed.
fn check_lines(env: &Env, wanted: &[Vec<u8>], is_told: bool) {
    let found = in_order(env);
    let mut rest = wanted.iter();
    let is_in_order = found.iter().all(|line| rest.any(|wanted| wanted == line));
    assert!(is_in_order || is_told, "the list is in another order, and the salvage does not report this");
    let lines = env.list("lines").unwrap();
    env.run(|txn| {
        lines.insert_before(txn, 2, b"second")?;
        lines.append(txn, b"last")?;
        lines.delete(txn, 1)
    })
    .unwrap();
    let now = in_order(env);
    assert_eq!((now.first().unwrap().as_slice(), now.last().unwrap().as_slice()), (&b"second"[..], &b"last"[..]));
    assert_eq!(env.verify("lines").unwrap().findings, Vec::new());
}

#[test]
fn an_index_is_not_salvaged_but_built_again() {
    let directory = tempfile::tempdir().unwrap();
    let env = made(directory.path());
    let (tree, file) = (env.btree("tree").unwrap(), directory.path().join("by_value.tp"));
    tree.index("by_value", |_, value, keys| keys.add(value)).unwrap();
    env.run(|txn| tree.put(txn, b"key", b"value")).unwrap();
    env.checkpoint().unwrap();
    let refused = env.salvage(&file, "again", &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("index") && refused.contains("again (`Db::index`)"), "{refused}");
    assert!(!env.databases().unwrap().iter().any(|name| name == "again"));
}
