//! Compares cursors of every kind with a model, in Rust and in C. Two cursors of one transaction make random steps. The
//! record at a cursor is removed through the cursor itself, by its key, through the other cursor, or by a rollback to a
//! savepoint. Some calls fail because another transaction has a lock.
//!
//! The model's rule: a call that fails or finds no entry leaves the cursor at its place. So after a `next` that finds no
//! entry, the cursor is still on the last entry: `prev` then finds the entry before the last, and `next` finds an entry
//! that came meanwhile.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod c;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use c::{compiled, workshop, Link};
use libtp::{Db, Duplicates, Env, Index, IndexCursor, List, ListCursor, Multi, Reader, Recno, Savepoint, Txn};
use libtp_sim::Random;

const KINDS: [&str; 8] = ["tree", "range", "hash", "sorted", "came", "recno", "list", "index"];
/// The number of commands in one run. A command is a line of text, such as `put 0 a B`.
const LINES: u32 = 150;

fn seed_and_runs() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    (number("LIBTP_TEST_SEED").unwrap_or(1), number("LIBTP_TEST_CASES").unwrap_or(6))
}

/// A function that takes the answer to the last command, and returns the next command, or `None` at the end.
type Talk<'t> = &'t mut dyn FnMut(&str) -> Option<String>;

/// The position of a model's cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stands {
    Nowhere,
    /// On the entry with this place in the order, even if the entry was removed. In a list, the place is a number.
    On(Vec<u8>),
    /// In the gap before this number of a list.
    Before(usize),
}

/// The contents of the database: keys and values by their place in the order.
type Pairs = BTreeMap<Vec<u8>, (char, char)>;

struct Model {
    kind: &'static str,
    pairs: Pairs,
    lines: Vec<char>,
    saved: Option<(Pairs, Vec<char>)>,
    /// The number of values stored so far.
    came: u8,
    /// The place of each key of a hash file.
    places: BTreeMap<char, u8>,
    stands: [Stands; 2],
}

fn letter(from: &str) -> char {
    from.chars().next().unwrap_or('?')
}

impl Model {
    fn is_list(&self) -> bool {
        self.kind == "list"
    }

    fn place(&self, key: &str) -> Vec<u8> {
        match self.kind {
            "recno" => vec![key.parse().unwrap()],
            "hash" => vec![self.places[&letter(key)]],
            _ => vec![letter(key) as u8],
        }
    }

    /// Returns the entries that a cursor can reach, in order.
    fn seen(&self) -> Pairs {
        match self.kind {
            "index" => self.pairs.values().map(|&(key, value)| (vec![value as u8, key as u8], (value, key))).collect(),
            "range" => self
                .pairs
                .iter()
                .filter(|pair| ('c'..'k').contains(&pair.1 .0))
                .map(|(at, pair)| (at.clone(), *pair))
                .collect(),
            _ => self.pairs.clone(),
        }
    }

    fn arrive(&mut self, nth: usize, found: Option<(Vec<u8>, (char, char))>) -> String {
        match found {
            None => "none".into(),
            Some((at, (key, value))) => {
                let answer = match self.kind {
                    "recno" => format!("{} {value}", at[0]),
                    _ => format!("{key} {value}"),
                };
                self.stands[nth] = Stands::On(at);
                answer
            }
        }
    }

    fn go(&mut self, nth: usize, word: &str, key: &str) -> String {
        let seen = self.seen();
        let owned = |pair: (&Vec<u8>, &(char, char))| (pair.0.clone(), *pair.1);
        let here = match &self.stands[nth] {
            Stands::On(at) => Some(at.clone()),
            _ => None,
        };
        let after = |at: &Vec<u8>| seen.iter().find(|pair| pair.0 > at).map(owned);
        let before = |at: &Vec<u8>| seen.iter().rfind(|pair| pair.0 < at).map(owned);
        let (first, last) = (seen.iter().next().map(owned), seen.iter().next_back().map(owned));
        let key_of = |at: &Vec<u8>| at[0];
        match (word, here) {
            ("first", _) => self.arrive(nth, first),
            ("last", _) => self.arrive(nth, last),
            ("seek", _) => {
                let from = self.place(key);
                let found = seen.iter().find(|pair| *pair.0 >= from).map(owned);
                self.arrive(nth, found)
            }
            ("behind", _) => {
                let from = self.place(key);
                self.arrive(nth, after(&from))
            }
            ("value", here) => {
                let found = here.and_then(|at| after(&at).filter(|found| key_of(&found.0) == key_of(&at)));
                self.arrive(nth, found)
            }
            ("next-key", Some(at)) => {
                let found = seen.iter().find(|pair| key_of(pair.0) > key_of(&at)).map(owned);
                self.arrive(nth, found)
            }
            ("prev-key", Some(at)) => {
                let found = seen.iter().rfind(|pair| key_of(pair.0) < key_of(&at)).map(owned);
                self.arrive(nth, found)
            }
            ("next" | "next-key", here) => {
                let found = here.map_or(first, |at| after(&at));
                self.arrive(nth, found)
            }
            (_, here) => {
                let found = here.map_or(last, |at| before(&at));
                self.arrive(nth, found)
            }
        }
    }

    /// Moves a cursor over the lines of a list. The lines' numbers begin with 1.
    fn go_list(&mut self, nth: usize, word: &str, number: &str) -> String {
        let count = self.lines.len();
        let to = match (word, &self.stands[nth]) {
            ("first", _) | ("next", Stands::Nowhere) => 1,
            ("last", _) => count,
            ("seek", _) => number.parse().unwrap(),
            ("next", Stands::On(at)) => usize::from(at[0]) + 1,
            ("next", Stands::Before(at)) => *at,
            (_, Stands::Nowhere) => count,
            (_, Stands::On(at)) => count.min(usize::from(at[0]) - 1),
            (_, Stands::Before(at)) => count.min(at - 1),
        };
        if to == 0 || to > count {
            return "none".into();
        }
        self.stands[nth] = Stands::On(vec![u8::try_from(to).unwrap()]);
        format!("{to} {}", self.lines[to - 1])
    }

    /// Changes a list through a cursor.
    fn change_list(&mut self, nth: usize, word: &str, value: char) -> bool {
        let (at, is_on) = match &self.stands[nth] {
            Stands::On(at) => (usize::from(at[0]), true),
            Stands::Before(at) => (*at, false),
            Stands::Nowhere => return false,
        };
        let stands = |at: usize| match is_on {
            true => Stands::On(vec![u8::try_from(at).unwrap()]),
            false => Stands::Before(at),
        };
        match word {
            "delete-here" | "put-here" if !is_on || at > self.lines.len() => return false,
            "delete-here" => {
                self.lines.remove(at - 1);
                self.stands[nth] = Stands::Before(at);
            }
            "put-here" => self.lines[at - 1] = value,
            "before-here" => {
                self.insert(at, value);
                self.stands[nth] = stands(at + 1);
            }
            _ => self.insert(at + usize::from(is_on), value),
        }
        true
    }

    /// Inserts a line of a list. If the number is after the last line, adds empty lines, shown as dots, in between.
    fn insert(&mut self, number: usize, value: char) {
        while self.lines.len() + 1 < number {
            self.lines.push('.');
        }
        self.lines.insert(number - 1, value);
    }

    fn put(&mut self, key: &str, value: char) {
        if self.is_list() {
            let number: usize = key.parse().unwrap();
            match self.lines.get_mut(number - 1) {
                Some(line) => *line = value,
                None => self.insert(number, value),
            }
            return;
        }
        let (mut at, key) = (self.place(key), letter(key));
        match self.kind {
            "sorted" => at.push(value as u8),
            "came" => {
                self.came += 1;
                at.push(self.came);
            }
            _ => {}
        }
        self.pairs.insert(at, (key, value));
    }

    /// Removes entries. Returns whether there was an entry to remove.
    fn delete(&mut self, nth: usize, word: &str, key: &str, value: char) -> bool {
        if self.is_list() {
            let number: usize = key.parse().unwrap();
            let is_there = number <= self.lines.len();
            if is_there {
                self.lines.remove(number - 1);
            }
            return is_there;
        }
        let gone: Vec<Vec<u8>> = match (word, &self.stands[nth]) {
            ("delete-here", Stands::On(at)) => vec![at.clone()],
            ("delete-here", _) => return false,
            ("delete-value", _) => {
                let is_meant = |pair: &(&Vec<u8>, &(char, char))| *pair.1 == (letter(key), value);
                self.pairs.iter().find(is_meant).map(|pair| pair.0.clone()).into_iter().collect()
            }
            _ => {
                let place = self.place(key);
                self.pairs.keys().filter(|at| at[0] == place[0]).cloned().collect()
            }
        };
        gone.iter().filter(|at| self.pairs.remove(*at).is_some()).count() > 0
    }

    fn put_here(&mut self, nth: usize, value: char) -> bool {
        let Stands::On(at) = self.stands[nth].clone() else { return false };
        let Some((key, _)) = self.pairs.get(&at).copied() else { return false };
        if self.kind == "sorted" {
            self.pairs.remove(&at);
            self.pairs.insert(vec![at[0], value as u8], (key, value));
        } else {
            self.pairs.insert(at, (key, value));
        }
        true
    }

    /// Carries out a command in the model. Returns the answer that is expected if no lock prevents the command.
    fn answer(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let (word, nth, key) = (words[0], words[1].parse().unwrap_or(0), *words.get(2).unwrap_or(&""));
        let value = letter(words.get(3).unwrap_or(&""));
        let is_done = match word {
            "put" => {
                self.put(key, value);
                true
            }
            "put-here" | "before-here" | "behind-here" | "delete-here" if self.is_list() => {
                self.change_list(nth, word, value)
            }
            "put-here" => self.put_here(nth, value),
            "delete" | "delete-value" | "delete-here" => self.delete(nth, word, key, value),
            "save" => {
                self.saved = Some((self.pairs.clone(), self.lines.clone()));
                true
            }
            "keep" => self.saved.take().is_some(),
            "roll" => {
                (self.pairs, self.lines) = self.saved.take().unwrap();
                true
            }
            "other" | "free" => true,
            _ if self.is_list() => return self.go_list(nth, word, key),
            _ => return self.go(nth, word, key),
        };
        if is_done { "ok" } else { "none" }.into()
    }

    /// Returns a random command.
    fn line(&mut self, random: &mut Random, is_snapshot: bool, other: &mut bool) -> String {
        let mut moves = vec!["first", "last", "next", "next", "next", "prev", "prev", "prev", "seek"];
        let mut changes = vec!["put", "put", "put", "delete", "delete"];
        match self.kind {
            "hash" => moves = vec!["first", "next", "next", "next", "behind"],
            "tree" | "range" => moves.push("behind"),
            "sorted" | "came" => {
                moves.extend(["value", "value", "next-key", "prev-key"]);
                changes.extend(["put", "delete-value", "delete-here", "delete-here", "put-here"]);
            }
            "list" => changes.extend(["delete-here", "put-here", "before-here", "behind-here"]),
            _ => {}
        }
        match self.saved.is_some() {
            true => changes.extend(["roll", "keep"]),
            false => changes.push("save"),
        }
        changes.push(if *other { "free" } else { "other" });
        let is_move = is_snapshot || random.chance(3, 5);
        let words = if is_move { &moves } else { &changes };
        let word = words[random.index(words.len())];
        *other = (*other || word == "other") && word != "free";
        let nth = random.index(2);
        let number = random.below(14) + 1;
        let key = match self.kind {
            "recno" | "list" => number.to_string(),
            "index" if word == "seek" => char::from(b'A' + u8::try_from(number % 5).unwrap()).to_string(),
            _ => char::from(b'a' + u8::try_from(number).unwrap()).to_string(),
        };
        let value = char::from(b'A' + u8::try_from(random.below(4)).unwrap());
        format!("{word} {nth} {key} {value}")
    }
}

/// Makes the runs of a kind of database. The first run fills the database and commits; the other runs are snapshots and
/// aborted transactions.
fn play(language: &str, kind: &'static str, carry_out: &dyn Fn(&Path, &str, &str, Talk<'_>)) -> (u64, u64) {
    let (seed, runs) = seed_and_runs();
    let directory = tempfile::tempdir().unwrap();
    let places = if kind == "hash" { places_of_keys(directory.path()) } else { BTreeMap::new() };
    let (mut pairs, mut lines, mut came) = (Pairs::new(), Vec::new(), 0);
    let (mut line_count, mut failed) = (0, 0);
    for run in 0..runs {
        let mode = ["commit", "snapshot", "abort"][usize::try_from(run.min(2)).unwrap()];
        let is_snapshot = mode == "snapshot";
        let mut random = Random::new(seed ^ (run << 32));
        let stands = [Stands::Nowhere, Stands::Nowhere];
        let mut model = Model {
            kind,
            pairs: pairs.clone(),
            lines: lines.clone(),
            saved: None,
            came,
            places: places.clone(),
            stands,
        };
        let (mut history, mut wanted, mut left, mut other) = (Vec::new(), String::from("ready"), LINES, false);
        let mut before =
            (model.pairs.clone(), model.lines.clone(), model.came, model.stands.clone(), model.saved.clone());
        carry_out(directory.path(), kind, mode, &mut |answer| {
            if answer == "timeout" {
                // The command has changed nothing.
                failed += 1;
                other &= !history.last().is_some_and(|line: &String| line.starts_with("other"));
                (model.pairs, model.lines, model.came, model.stands, model.saved) = before.clone();
            } else {
                let tail = history.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n  ");
                let what = format!("{language}, {kind}, LIBTP_TEST_SEED={seed}, run {run}, after\n  {tail}\n");
                assert_eq!(answer, wanted, "{what}");
            }
            if let Some(line) = history.last_mut() {
                line.push_str(&format!(": {answer}"));
            }
            line_count += 1;
            left = left.checked_sub(1)?;
            let is_last = left == 0;
            let next = match (is_last && run == 0, is_last && model.saved.is_some()) {
                (true, true) => "keep 0".to_string(),
                _ => model.line(&mut random, is_snapshot, &mut other),
            };
            before = (model.pairs.clone(), model.lines.clone(), model.came, model.stands.clone(), model.saved.clone());
            wanted = model.answer(&next);
            history.push(next.clone());
            Some(next)
        });
        if run == 0 {
            (pairs, lines, came) = (model.pairs, model.lines, model.came);
        }
    }
    (line_count, failed)
}

/// Returns the place of each key of a hash file, in the order in which the file's cursors visit the keys.
fn places_of_keys(directory: &Path) -> BTreeMap<char, u8> {
    let env = Env::open_or_create(directory).unwrap();
    let hash = env.hash("hash").unwrap();
    let txn = env.begin().unwrap();
    (b'a'..=b'z').for_each(|key| hash.put(&txn, &[key], b"").unwrap());
    let mut cursor = hash.cursor(&txn);
    let keys = std::iter::from_fn(|| cursor.next().unwrap());
    keys.zip(0..).map(|((key, _), at)| (char::from(key[0]), at)).collect()
}

/// A cursor of any kind.
trait Moves {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>>;
}

fn text(first: &[u8], second: &[u8]) -> String {
    format!("{} {}", String::from_utf8_lossy(first), String::from_utf8_lossy(second))
}

fn numbered((number, record): (u64, Vec<u8>)) -> String {
    // An empty record of a list is shown as a dot.
    let record = if record.is_empty() { b".".to_vec() } else { record };
    text(number.to_string().as_bytes(), &record)
}

impl Moves for libtp::Cursor<'_> {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>> {
        let found = match word {
            "first" => self.first(),
            "last" => self.last(),
            "next" => self.next(),
            "prev" => self.prev(),
            "behind" => self.next_after(key.as_bytes()),
            _ => self.seek(key.as_bytes()),
        };
        Ok(found?.map(|(key, value)| text(&key, &value)))
    }
}

impl Moves for libtp::MultiCursor<'_> {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>> {
        let found = match word {
            "first" => self.first(),
            "last" => self.last(),
            "next" => self.next(),
            "prev" => self.prev(),
            "value" => self.next_duplicate(),
            "next-key" => self.next_key(),
            "prev-key" => self.prev_key(),
            _ => self.seek(key.as_bytes()),
        };
        Ok(found?.map(|(key, value)| text(&key, &value)))
    }
}

impl Moves for libtp::RecnoCursor<'_> {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>> {
        let found = match word {
            "first" => self.first(),
            "last" => self.last(),
            "next" => self.next(),
            "prev" => self.prev(),
            _ => self.seek(key.parse().unwrap()),
        };
        Ok(found?.map(numbered))
    }
}

impl<R: Reader> Moves for ListCursor<'_, R> {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>> {
        let found = match word {
            "first" => self.first(),
            "last" => self.last(),
            "next" => self.next(),
            "prev" => self.prev(),
            _ => self.seek(key.parse().unwrap()),
        };
        Ok(found?.map(numbered))
    }
}

impl<R: Reader> Moves for IndexCursor<'_, R> {
    fn go(&mut self, word: &str, key: &str) -> libtp::Result<Option<String>> {
        let found = match word {
            "first" => self.first(),
            "last" => self.last(),
            "next" => self.next(),
            "prev" => self.prev(),
            _ => self.seek(key.as_bytes()),
        };
        Ok(found?.map(|found| text(&found.index_key, &found.key)))
    }
}

/// A database of any kind.
enum Store {
    Pairs(Db),
    Index(Db, Index),
    Several(Multi),
    Recno(Recno),
    List(List),
}

impl Store {
    fn open(env: &Env, kind: &str) -> Store {
        match kind {
            "tree" | "range" => Store::Pairs(env.btree("tree").unwrap()),
            "hash" => Store::Pairs(env.hash("hash").unwrap()),
            "sorted" => Store::Several(env.multi(kind, Duplicates::Sorted).unwrap()),
            "came" => Store::Several(env.multi(kind, Duplicates::AsTheyCame).unwrap()),
            "recno" => Store::Recno(env.recno(kind, 1).unwrap()),
            "list" => Store::List(env.list(kind).unwrap()),
            _ => {
                let db = env.btree(kind).unwrap();
                let index = db.index("by value", |_, value, keys| keys.add(value)).unwrap();
                Store::Index(db, index)
            }
        }
    }

    fn put(&self, txn: &Txn<'_>, key: &str, value: &[u8]) -> libtp::Result<bool> {
        match self {
            Store::Pairs(db) | Store::Index(db, _) => db.put(txn, key.as_bytes(), value)?,
            Store::Several(multi) => drop(multi.put(txn, key.as_bytes(), value)?),
            Store::Recno(recno) => recno.put(txn, key.parse().unwrap(), value)?,
            Store::List(list) => list.put(txn, key.parse().unwrap(), value)?,
        }
        Ok(true)
    }

    fn delete(&self, txn: &Txn<'_>, word: &str, key: &str, value: &[u8]) -> libtp::Result<bool> {
        match self {
            Store::Pairs(db) | Store::Index(db, _) => db.delete(txn, key.as_bytes()),
            Store::Several(multi) if word == "delete-value" => multi.delete_value(txn, key.as_bytes(), value),
            Store::Several(multi) => Ok(multi.delete(txn, key.as_bytes())? > 0),
            Store::Recno(recno) => recno.delete(txn, key.parse().unwrap()),
            Store::List(list) => list.delete(txn, key.parse().unwrap()),
        }
    }
}

/// Two cursors that can only move, or two cursors that can also change records.
enum Cursors<'t, 'e> {
    Any(Vec<Box<dyn Moves + 't>>),
    Several(&'t Multi, Vec<libtp::MultiCursor<'t>>),
    List(Vec<ListCursor<'t, Txn<'e>>>),
}

impl<'t> Cursors<'t, '_> {
    fn two<C: Moves + 't>(make: impl Fn() -> C) -> Self {
        Cursors::Any((0..2).map(|_| Box::new(make()) as Box<dyn Moves + 't>).collect())
    }

    /// Returns two cursors that can only move.
    fn reading(store: &'t Store, kind: &str, reader: &'t impl Reader) -> Self {
        match store {
            Store::Pairs(db) if kind == "range" => Cursors::two(|| db.range(reader, &b"c"[..]..&b"k"[..]).unwrap()),
            Store::Pairs(db) => Cursors::two(|| db.cursor(reader)),
            Store::Index(_, index) => Cursors::two(|| index.cursor(reader)),
            Store::Several(multi) => Cursors::two(|| multi.cursor(reader)),
            Store::Recno(recno) => Cursors::two(|| recno.cursor(reader)),
            Store::List(list) => Cursors::two(|| list.cursor(reader)),
        }
    }

    fn go(&mut self, nth: usize, word: &str, key: &str) -> libtp::Result<Option<String>> {
        match self {
            Cursors::Any(cursors) => cursors[nth].go(word, key),
            Cursors::Several(_, cursors) => cursors[nth].go(word, key),
            Cursors::List(cursors) => cursors[nth].go(word, key),
        }
    }

    fn change(&mut self, txn: &Txn<'_>, nth: usize, word: &str, value: &[u8]) -> libtp::Result<bool> {
        match self {
            Cursors::Any(_) => Ok(false),
            Cursors::Several(multi, cursors) if word == "put-here" => multi.put_at(txn, &cursors[nth], value),
            Cursors::Several(multi, cursors) => multi.delete_at(txn, &cursors[nth]),
            Cursors::List(cursors) => match word {
                "delete-here" => cursors[nth].delete(),
                "put-here" => cursors[nth].put(value),
                "before-here" => Ok(cursors[nth].insert_before(value)?.is_some()),
                _ => Ok(cursors[nth].insert_after(value)?.is_some()),
            },
        }
    }
}

fn message_of(done: libtp::Result<bool>) -> String {
    match done {
        Ok(true) => "ok".into(),
        Ok(false) => "none".into(),
        Err(libtp::Error::LockTimeout(_)) => "timeout".into(),
        Err(error) => error.to_string(),
    }
}

const MOVES: [&str; 9] = ["first", "last", "next", "prev", "seek", "behind", "value", "next-key", "prev-key"];

/// Carries out the commands in Rust.
fn in_rust(directory: &Path, kind: &str, mode: &str, talk: Talk<'_>) {
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(directory).unwrap();
    let store = Store::open(&env, kind);
    if mode == "snapshot" {
        let snapshot = env.snapshot().unwrap();
        let mut cursors = Cursors::reading(&store, kind, &snapshot);
        let mut answer = "ready".to_string();
        while let Some(line) = talk(&answer) {
            answer = moved(&mut cursors, &line);
        }
        return;
    }
    let txn = env.begin().unwrap();
    let mut cursors = match &store {
        Store::Several(multi) => Cursors::Several(multi, vec![multi.cursor(&txn), multi.cursor(&txn)]),
        Store::List(list) => Cursors::List(vec![list.cursor(&txn), list.cursor(&txn)]),
        store => Cursors::reading(store, kind, &txn),
    };
    let (mut savepoint, mut other): (Option<Savepoint<'_, '_>>, Option<Txn<'_>>) = (None, None);
    let mut answer = "ready".to_string();
    while let Some(line) = talk(&answer) {
        let words: Vec<&str> = line.split(' ').collect();
        let (word, key, value) = (words[0], *words.get(2).unwrap_or(&""), words.get(3).unwrap_or(&"").as_bytes());
        let nth: usize = words[1].parse().unwrap();
        answer = match word {
            "put" => message_of(store.put(&txn, key, value)),
            "delete" | "delete-value" => message_of(store.delete(&txn, word, key, value)),
            "save" => {
                savepoint = Some(txn.savepoint());
                message_of(Ok(true))
            }
            "keep" => {
                savepoint.take().unwrap().keep();
                message_of(Ok(true))
            }
            "roll" => message_of(savepoint.take().unwrap().roll_back().map(|()| true)),
            "other" => {
                let holder = env.begin().unwrap();
                let done = message_of(store.put(&holder, key, value));
                other = Some(holder).filter(|_| done == "ok");
                done
            }
            "free" => {
                drop(other.take());
                message_of(Ok(true))
            }
            word if MOVES.contains(&word) => moved(&mut cursors, &line),
            word => message_of(cursors.change(&txn, nth, word, value)),
        };
    }
    drop((other, cursors));
    let _ = savepoint.map(Savepoint::keep);
    if mode == "commit" {
        txn.commit().unwrap();
    }
}

fn moved(cursors: &mut Cursors<'_, '_>, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match cursors.go(words[1].parse().unwrap(), words[0], words.get(2).unwrap_or(&"")) {
        Ok(found) => found.unwrap_or("none".into()),
        Err(libtp::Error::LockTimeout(_)) => "timeout".into(),
        Err(error) => error.to_string(),
    }
}

/// Lets a program in C carry out the commands.
fn in_c(program: &Path, directory: &Path, kind: &str, mode: &str, talk: Talk<'_>) {
    let mut command = Command::new(program);
    command.arg(directory).args([kind, mode]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut lines, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for answer in answers.lines() {
        let Some(line) = talk(&answer.unwrap()) else { break };
        writeln!(lines, "{line}").unwrap();
    }
    drop(lines);
    assert!(child.wait().unwrap().success(), "the program in C has failed");
}

#[test]
fn cursors_of_every_kind_agree_with_their_model_in_rust() {
    for kind in KINDS {
        let (line_count, failed) = play("Rust", kind, &in_rust);
        println!("figures: {kind}: {line_count} commands in Rust, {failed} of them failed because of a lock");
    }
}

#[test]
fn cursors_of_every_kind_agree_with_their_model_in_c() {
    let workshop = workshop();
    let program = compiled("tests/c/cursors.c", workshop.path(), Link::Shared);
    for kind in KINDS {
        let carry_out =
            |directory: &Path, kind: &str, mode: &str, talk: Talk<'_>| in_c(&program, directory, kind, mode, talk);
        let (line_count, failed) = play("C", kind, &carry_out);
        println!("figures: {kind}: {line_count} commands in C, {failed} of them failed because of a lock");
    }
}
