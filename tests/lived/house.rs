//! The environment of the long run (the house): one database of each kind, and their expected contents.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libtp::{Bytes, Db, Durability, Env, Index, List, Recno, Settings};
use libtp_sim::Random;

use crate::stock::{self, Listed, Numbered, Window};

/// Number of threads that work concurrently.
pub const WORKERS: usize = 2;
/// Number of queues of each worker. The worker finds the first message of its first queue with a cursor, and the first
/// message of its second queue by the message's key.
pub const QUEUES: usize = 2;
/// Bytes of a record in the record-number file.
pub const RECORD_BYTES: usize = 48;
/// The number in the key of a queue's fence, a record that is always after the queue's last message.
const FENCE: u32 = u32::MAX;

/// An environment, its databases, and their expected contents.
pub struct House {
    pub path: PathBuf,
    pub env: Env,
    /// A B-tree in which keys are inserted and deleted at random.
    pub records: Db,
    pub of_records: Numbered,
    /// A hash file with keys of the same kind as the keys of `records`.
    pub hashed: Db,
    pub of_hashed: Numbered,
    /// A B-tree with an index, and with keys of the same kind as the keys of `records`.
    pub indexed: Db,
    /// The index of `indexed`, whose entries are kept up to date while this value exists.
    _index: Index,
    pub of_indexed: Numbered,
    /// A record-number file.
    pub numbers: Recno,
    pub of_numbers: Numbered,
    /// A B-tree in which keys are added at one end and removed at the other.
    pub queues: Db,
    pub windows: [Mutex<Window>; WORKERS * QUEUES],
    /// A list, whose records are renumbered by insertions and deletions.
    pub list: List,
    pub of_list: Listed,
}

/// The size of all databases, derived from a number of keys.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Number of keys of `records`. The other databases have a fraction of this number (a fifth, a tenth, ..).
    pub keys: usize,
}

impl Extent {
    pub fn window(self) -> u32 {
        u32::try_from(self.keys / 20).unwrap()
    }

    pub fn listed(self) -> usize {
        200 + self.keys / 50
    }

    /// Returns the size of the page cache, which is smaller than the files.
    pub fn memory(self) -> Bytes {
        Bytes((160 * self.keys as u64).max(1 << 20))
    }

    /// Returns the bytes of log between two checkpoints.
    pub fn checkpoint_log(self) -> Bytes {
        Bytes((400 * self.keys as u64).max(2 << 20))
    }

    pub fn log_segment(self) -> Bytes {
        Bytes((self.checkpoint_log().0 / 4).next_power_of_two())
    }
}

impl House {
    /// Makes an empty house.
    pub fn new(path: &Path, extent: Extent) -> House {
        let settings = Settings {
            memory: Some(extent.memory()),
            durability: Some(Durability::Relaxed),
            checkpoint_log: Some(extent.checkpoint_log()),
            log_segment_first: Some(extent.log_segment()),
            log_segment_max: Some(extent.log_segment()),
            ..Settings::default()
        };
        let env = Env::builder().settings(settings).open(path).unwrap();
        let indexed = env.btree("indexed").unwrap();
        let index = indexed.index("indexed-by-middle", |_, value, keys| keys.add(&value[8..16])).unwrap();
        let queues = env.btree("queues").unwrap();
        let mut key = Vec::new();
        for queue in 0..WORKERS * QUEUES {
            stock::message_key(u8::try_from(queue).unwrap(), FENCE, &mut key);
            env.run(|txn| queues.put(txn, &key, b"fence")).unwrap();
        }
        House {
            path: path.to_path_buf(),
            records: env.btree("records").unwrap(),
            of_records: Numbered::new(extent.keys),
            hashed: env.hash("hashed").unwrap(),
            of_hashed: Numbered::new(extent.keys / 5),
            indexed,
            _index: index,
            of_indexed: Numbered::new(extent.keys / 20),
            numbers: env.recno("numbers", u32::try_from(RECORD_BYTES).unwrap()).unwrap(),
            of_numbers: Numbered::new(extent.keys / 10),
            queues,
            windows: std::array::from_fn(|_| Mutex::new(Window::default())),
            list: env.list("list").unwrap(),
            of_list: Listed::new(),
            env,
        }
    }

    /// Puts records at seven of ten keys of `records`, `hashed` and `indexed`, and fills the list to its usual length.
    pub fn furnish(&self, extent: Extent, seed: u64) {
        let mut random = Random::new(seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for (db, numbered) in
            [(&self.records, &self.of_records), (&self.hashed, &self.of_hashed), (&self.indexed, &self.of_indexed)]
        {
            for some in 0..numbered.len().div_ceil(100) {
                let txn = self.env.begin().unwrap();
                for at in some * 100..numbered.len().min((some + 1) * 100) {
                    if random.chance(7, 10) {
                        let number = stock::fresh(&mut random);
                        stock::key_of(at, &mut key);
                        stock::value_of(number, at as u64, &mut value);
                        db.put(&txn, &key, &value).unwrap();
                        numbered.set(at, number);
                    }
                }
                txn.commit().unwrap();
            }
        }
        let txn = self.env.begin().unwrap();
        let mut list = self.of_list.open();
        for _ in 0..extent.listed() {
            let number = stock::fresh(&mut random);
            stock::value_of(number, 0, &mut value);
            self.list.append(&txn, &value).unwrap();
            list.push(number);
        }
        txn.commit().unwrap();
    }

    /// Compares every record with its expected bytes. Returns the number of records.
    pub fn audit(&self) -> u64 {
        let txn = self.env.begin().unwrap();
        let (mut key, mut value, mut audited) = (Vec::new(), Vec::new(), 0);
        for (db, numbered) in
            [(&self.records, &self.of_records), (&self.hashed, &self.of_hashed), (&self.indexed, &self.of_indexed)]
        {
            for at in 0..numbered.len() {
                let number = numbered.get(at);
                stock::key_of(at, &mut key);
                stock::value_of(number, at as u64, &mut value);
                let is_right = db.get_with(&txn, &key, |found| found == value).unwrap();
                let must = (number != stock::ABSENT).then_some(true);
                assert_eq!(is_right, must, "record {at} of {}", db.name());
                audited += u64::from(must.is_some());
            }
        }
        let txn = self.audited(txn);
        for at in 0..self.of_numbers.len() {
            let number = self.of_numbers.get(at);
            stock::record_of(number, at as u64, RECORD_BYTES, &mut value);
            let found = self.numbers.get(&txn, at as u64 + 1).unwrap();
            let must = (number != stock::ABSENT).then_some(&value);
            assert_eq!(found.as_ref(), must, "record number {}", at + 1);
            audited += u64::from(must.is_some());
        }
        let txn = self.audited(txn);
        let mut messages = self.queues.cursor(&txn);
        let mut found = messages.first().unwrap();
        for (queue, window) in self.windows.iter().enumerate() {
            let window = *window.lock().unwrap();
            for number in (window.first..window.after).chain([FENCE]) {
                let (found_key, found_value) = found.take().expect("a queue has lost its end");
                stock::message_key(u8::try_from(queue).unwrap(), number, &mut key);
                stock::value_of(number, queue as u64, &mut value);
                assert_eq!(found_key, key, "queue {queue}");
                assert!(number == FENCE || found_value == value, "message {number} of queue {queue}");
                audited += 1;
                found = messages.next().unwrap();
            }
        }
        assert_eq!(found, None, "a record follows the last queue");
        let txn = self.audited(txn);
        let listed = self.of_list.open();
        assert_eq!(self.list.count(&txn).unwrap(), listed.len() as u64);
        for (at, number) in listed.iter().enumerate() {
            stock::value_of(*number, 0, &mut value);
            assert!(
                self.list.get(&txn, at as u64 + 1).unwrap().as_ref() == Some(&value),
                "record {} of the list",
                at + 1
            );
            audited += 1;
        }
        txn.commit().unwrap();
        audited
    }

    /// Commits the transaction to release its locks, and begins another transaction.
    fn audited<'e>(&'e self, txn: libtp::Txn<'e>) -> libtp::Txn<'e> {
        txn.commit().unwrap();
        self.env.begin().unwrap()
    }
}
