//! The deeds: the kinds of work that the child does.

use super::*;

impl MixedWork<'_> {
    /// Puts new keys after the last key, and one key in a random place.
    pub(super) fn fill(&mut self) -> Result<()> {
        let (from, to) = (self.window.1, self.window.1 + 20);
        let value = vec![b'v'; 50 + self.random.index(300)];
        let (durability, at_random) = (self.durability(), self.random.next_u64() % 3000);
        let keys: Vec<Vec<u8>> = (from..to).map(|at| self.key(at)).collect();
        self.env.run_with(durability, |txn| {
            keys.iter().try_for_each(|key| self.fill.put(txn, key, &value))?;
            self.fill.put(txn, format!("any/{at_random:06}").as_bytes(), &value)
        })?;
        self.window.1 = to;
        Ok(())
    }

    /// Deletes the oldest keys, and reads from there on. Sessions that pass the ghosts' pages remove the ghosts.
    pub(super) fn sweep(&mut self) -> Result<()> {
        if self.window.1 - self.window.0 < WINDOW {
            return self.fill();
        }
        let (from, to) = (self.window.0, self.window.0 + WINDOW / 2);
        let keys: Vec<Vec<u8>> = (from..to).map(|at| self.key(at)).collect();
        self.env.run_with(Durability::Relaxed, |txn| {
            keys.iter().try_for_each(|key| self.fill.delete(txn, key).map(|_| ()))
        })?;
        self.window.0 = to;
        let first = self.key(0);
        self.env.run(|txn| {
            let mut cursor = self.fill.cursor(txn);
            let mut seen = cursor.seek(&first)?;
            for _ in 0..50 {
                if seen.is_none() {
                    break;
                }
                seen = cursor.next()?;
            }
            Ok(())
        })
    }

    /// Puts long keys with a common prefix at the end of a tree, and deletes the oldest, so that inner pages lose their
    /// children.
    pub(super) fn queue(&mut self) -> Result<()> {
        let name = |at: u64| {
            [format!("{:04}/", self.number % 8).into_bytes(), vec![b'q'; 1500], at.to_be_bytes().to_vec()].concat()
        };
        let db = self.env.btree("queue")?;
        let (from, to) = (self.queued, self.queued + 60);
        self.env.run_with(Durability::Relaxed, |txn| (from..to).try_for_each(|at| db.put(txn, &name(at), b"")))?;
        self.queued = to;
        self.env.run_with(Durability::Relaxed, |txn| db.delete_range(txn, name(0)..name(to.saturating_sub(20))))?;
        Ok(())
    }

    /// Loads many records at once, into a database that may have been loaded before. Some sorted loads fail, because
    /// their records are not in order.
    pub(super) fn load(&mut self) -> Result<()> {
        let db = self.env.btree(&format!("loaded{}", self.random.below(LOADED)))?;
        let is_sorted = self.random.chance(1, 3);
        let mut numbers: Vec<u64> = (0..400 + self.random.below(400)).collect();
        if self.random.chance(2, 3) {
            numbers.reverse();
        }
        let how = if is_sorted { Load::sorted() } else { Load::unsorted().memory(Bytes::kib(16)) };
        match db.load(&how, numbers.iter().map(|at| (at.to_be_bytes(), [b'l'; 60]))) {
            Err(Error::NotEmpty { .. } | Error::OutOfOrder { .. } | Error::LockTimeout(_)) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Puts keys, deletes four of five, and merges leaves by a compaction.
    pub(super) fn thin(&mut self) -> Result<()> {
        let db = self.env.btree("thin")?;
        let (number, at) = (self.number % 8, self.queued);
        let key = |at: u64| format!("{number:04}/{at:08}").into_bytes();
        self.env.run_with(Durability::Relaxed, |txn| {
            (at..at + 200).try_for_each(|at| db.put(txn, &key(at), &[b't'; 150]))
        })?;
        self.queued += 200;
        self.env.run_with(Durability::Sync, |txn| {
            (at.saturating_sub(400)..at + 200)
                .filter(|at| at % 5 != 0)
                .try_for_each(|at| db.delete(txn, &key(at)).map(|_| ()))
        })?;
        db.compact(90).map(|_| ())
    }

    /// Replaces a value of several pages.
    pub(super) fn long(&mut self) -> Result<()> {
        let key = format!("long/{}/{}", self.number % 4, self.random.below(8)).into_bytes();
        let value = vec![b'l'; 5_000 + self.random.index(40_000)];
        let is_kept = self.random.chance(3, 4);
        self.in_txn(is_kept, |churn, txn| churn.long.put(txn, &key, &value))
    }

    /// Makes changes of all kinds, and aborts them.
    pub(super) fn abort(&mut self) -> Result<()> {
        let at = self.random.below(3000);
        self.in_txn(false, |churn, txn| {
            for one in at..at + 5 {
                let key = format!("any/{one:06}").into_bytes();
                churn.fill.put(txn, &key, &[b'a'; 200])?;
                churn.fill.delete(txn, &key)?;
            }
            let part = txn.savepoint();
            churn.long.put(txn, format!("long/abort/{}", at % 4).as_bytes(), &[b'a'; 20_000])?;
            part.roll_back()?;
            churn.records.append(txn, &[1; 100]).map(|_| ())
        })
    }

    /// Gives two records the same new value. Between the two puts, the transaction changes both records and rolls back
    /// to a savepoint.
    pub(super) fn nested(&mut self) -> Result<()> {
        let at = self.random.below(8);
        let key = |which: u64| format!("{WHOLE}{at}/{which}").into_bytes();
        let (value, is_kept) = (self.random.next_u64().to_le_bytes(), self.random.chance(3, 4));
        self.in_txn(is_kept, |churn, txn| {
            churn.long.put(txn, &key(1), &value)?;
            let part = txn.savepoint();
            churn.long.put(txn, format!("long/abort/part/{at}").as_bytes(), &[b'a'; 20_000])?;
            churn.long.put(txn, &key(1), b"of the part")?;
            churn.long.delete(txn, &key(2))?;
            part.roll_back()?;
            churn.long.put(txn, &key(2), &value)
        })
    }

    /// Passes a transaction on and takes it over again, with its locks and changes. If the process dies in between, no
    /// process takes the transaction over.
    pub(super) fn pass(&mut self) -> Result<()> {
        let (at, is_kept) = (self.random.below(3000), self.random.coin());
        let key = format!("any/{at:06}").into_bytes();
        let other = format!("any/{:06}", at + 1).into_bytes();
        let rebuilds = self.env.managers().processes.rebuild_count();
        let txn = self.env.begin_with(self.durability())?;
        let begun = self.fill.put(&txn, &key, &[b'p'; 100]);
        let txn = match begun {
            Ok(()) => match self.env.attach(&txn.detach()?) {
                // The memory was rebuilt before the takeover. So the transaction was undone, and cannot be continued.
                Err(Error::NotPassed { .. }) if self.env.managers().processes.rebuild_count() != rebuilds => {
                    return Ok(())
                }
                taken => taken?,
            },
            Err(Error::Deadlock | Error::LockTimeout(_)) => return txn.abort(),
            Err(error) => return Err(error),
        };
        match self.fill.put(&txn, &other, &[b'p'; 100]) {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    pub(super) fn recno(&mut self) -> Result<()> {
        let (number, is_kept, is_put) = (self.random.below(500) + 1, self.random.chance(3, 4), self.random.coin());
        self.in_txn(is_kept, |churn, txn| {
            if is_put {
                churn.records.put(txn, number, &[2; 100])?;
                return churn.records.delete(txn, number).map(|_| ());
            }
            for _ in 0..10 {
                churn.records.append(txn, &[3; 100])?;
            }
            churn.records.add(txn, number, 40, 1).map(drop)
        })
    }

    /// Changes keys with several values.
    pub(super) fn several(&mut self) -> Result<()> {
        let (which, is_kept) = (self.random.index(2), self.random.chance(3, 4));
        let seed = self.random.next_u64();
        self.in_txn(is_kept, |churn, txn| several::change(&churn.several[which], txn, &mut Random::new(seed)))
    }

    /// Changes the program's own pages: counters that several transactions change concurrently, and single bytes.
    pub(super) fn own(&mut self) -> Result<()> {
        let (counter, is_kept, is_shared) = (self.random.below(8), self.random.chance(1, 2), self.random.coin());
        let (page, at) = (1 + u32::try_from(self.random.below(4)).unwrap(), self.random.index(1000));
        self.in_txn(is_kept, |churn, txn| {
            if is_shared {
                return churn.own.apply(txn, 0, ADD, &counter.to_le_bytes()).map(|_| ());
            }
            let next = churn.own.count(txn)?;
            let page = if next < 1000 { next.max(1) } else { page };
            churn.own.lock(txn, page, PageLock::Write)?;
            for byte in [b'a', b'b'] {
                let mut copy = churn.own.get(txn, page)?;
                copy.bytes[at..at + 100].fill(byte);
                match churn.own.put(txn, &copy) {
                    // `put` is refused if the page before this page does not exist yet.
                    Ok(_) | Err(Error::Database { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Inserts or deletes many records at one place of a list, so that nodes are split and removed.
    pub(super) fn list(&mut self) -> Result<()> {
        let (at, many, is_kept) = (self.random.below(1 << 20), 1 + self.random.below(150), self.random.chance(3, 4));
        let record = vec![b'r'; 10 + self.random.index(100)];
        let durability = self.durability();
        let is_shrunk = self.random.coin();
        let txn = self.env.begin_with(durability)?;
        let done = (|| {
            // The append comes first, because it locks the list exclusively. So the transaction causes no deadlock by a
            // later upgrade.
            let number = self.list.append(&txn, b"last")?;
            let first = 1 + at % number;
            if is_shrunk || number > 2000 {
                return (0..2 * many).try_for_each(|_| self.list.delete(&txn, first).map(|_| ()));
            }
            (0..many).try_for_each(|_| self.list.insert_before(&txn, first, &record).map(|_| ()))
        })();
        match done {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    /// Edits a list that is also kept as a text file. If a process dies after it has written the file and before it has
    /// noted this, the next process finds the file.
    pub(super) fn text(&mut self) -> Result<()> {
        let list = self.env.list("text")?;
        let text = TextFile::open(self.env, &list, self.directory.join("text"), TextForm::default())?;
        let (line, at) = (format!("by {}", self.number), self.random.below(40));
        let edited = self.in_txn(true, |_, txn| {
            list.insert_after(txn, at.min(list.count(txn)?), line.as_bytes())?;
            list.delete(txn, 40).map(|_| ())
        });
        edited.and_then(|()| text.close())
    }

    /// Changes records that have two indices. Sometimes drops the second index, or makes it again.
    pub(super) fn index(&mut self) -> Result<()> {
        match self.random.below(12) {
            0 => return self.indexed.drop_index(SECOND_INDEX).map(|_| ()).or_else(may_be_missing),
            1 => return self.indexed.index(SECOND_INDEX, by_last_letter).map(|_| ()),
            _ => {}
        }
        // A process may write only if it has registered the functions of all indices.
        let first = self.indexed.index(FIRST_INDEX, by_first_letter)?;
        let second = self.indexed.index(SECOND_INDEX, by_last_letter)?;
        if self.random.chance(1, 8) {
            self.in_txn(true, |churn, txn| churn.indexed.put(txn, b"always", b"there"))?;
            // The build registers the index, and fails at the first record, because its index key is too long.
            return match self.indexed.index(NO_INDEX, |_, _, keys| keys.add([0; 9000])) {
                Err(Error::Length { .. } | Error::Deadlock | Error::LockTimeout(_)) => Ok(()),
                made => made.map(|_| ()),
            };
        }
        let (at, is_kept) = (self.random.below(200), self.random.chance(3, 4));
        let values: Vec<Vec<u8>> = (0..6).map(|_| format!("{:x}", self.random.next_u64() >> 40).into_bytes()).collect();
        self.in_txn(is_kept, |churn, txn| {
            for (one, value) in (at..).zip(&values) {
                let key = format!("{one:06}").into_bytes();
                match value.len() % 3 {
                    0 => churn.indexed.delete(txn, &key).map(|_| ())?,
                    _ => churn.indexed.put(txn, &key, value)?,
                }
            }
            for entry in first.get(txn, b"7")?.iter().take(3) {
                assert_eq!(entry.1.first(), Some(&b'7'), "an index entry leads to a record with another index key");
            }
            match second.count(txn, b"7") {
                // Another process has dropped the index meanwhile.
                Err(Error::Database { what, .. }) if what.starts_with("this index was dropped") => Ok(()),
                counted => counted.map(|_| ()),
            }
        })
    }

    /// Puts and deletes records, also long records, in random buckets of a hash file. Some transactions abort.
    pub(super) fn hash(&mut self) -> Result<()> {
        let (is_kept, with_long) = (self.random.chance(3, 4), self.random.chance(1, 4));
        let first = self.random.below(HASH_KEYS);
        let (put, long) = (vec![b'h'; 20 + self.random.index(1900)], vec![b'l'; 5_000 + self.random.index(20_000)]);
        let key = |at: u64| format!("hash/{:06}", at * 7919 % HASH_KEYS).into_bytes();
        self.in_txn(is_kept, |churn, txn| {
            (first..first + 12).try_for_each(|at| churn.hash.put(txn, &key(at), &put))?;
            (first + 12..first + 18).try_for_each(|at| churn.hash.delete(txn, &key(at)).map(|_| ()))?;
            match with_long {
                true => churn.hash.put(txn, &key(first % 8), &long),
                false => Ok(()),
            }
        })
    }

    /// Reads and puts records under page locks.
    pub(super) fn pages(&mut self) -> Result<()> {
        let at = self.random.below(20_000);
        let value = vec![b'p'; 20 + self.random.index(400)];
        let is_kept = self.random.chance(7, 8);
        self.in_txn(is_kept, |churn, txn| {
            churn.pages.get(txn, format!("{:06}", at / 2).as_bytes())?;
            churn.pages.put(txn, format!("{at:06}").as_bytes(), &value)
        })
    }

    /// Reads records and then writes them, which upgrades their locks. Two sessions that do this may deadlock.
    pub(super) fn upgrade(&mut self) -> Result<()> {
        let (one, two) = (self.random.below(3), self.random.below(3));
        self.in_txn(true, |churn, txn| {
            for key in [one, two] {
                let key = format!("hot/{key}").into_bytes();
                churn.fill.get(txn, &key)?;
                churn.fill.put(txn, &key, b"upgraded")?;
            }
            Ok(())
        })
    }

    /// Changes a record in place.
    pub(super) fn touch(&mut self) -> Result<()> {
        let key = format!("touched/{}", self.random.below(10)).into_bytes();
        let (is_part, bytes) = (self.random.coin(), self.random.next_u64().to_le_bytes());
        self.in_txn(true, |churn, txn| {
            let is_there = match is_part {
                true => churn.fill.update_part(txn, &key, 4, &bytes[..3])?,
                false => churn.fill.update_with(txn, &key, |value| value[0] ^= 1)?.is_some(),
            };
            match is_there {
                true => Ok(()),
                false => churn.fill.put(txn, &key, b"not yet"),
            }
        })
    }

    pub(super) fn in_txn(
        &mut self,
        is_kept: bool,
        work: impl Fn(&MixedWork<'_>, &libtp::Txn<'_>) -> Result<()>,
    ) -> Result<()> {
        let txn = self.env.begin_with(self.durability())?;
        match work(self, &txn) {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    /// Makes a session, takes locks of all kinds, and ends the session.
    pub(super) fn locks(&mut self, most: u64) -> Result<()> {
        let managers = self.env.managers();
        let txn = join(&managers)?;
        let (session, locker, locks) = (txn.session(), txn.locker(), &managers.locks);
        let brief = Wait::For(Duration::from_millis(2));
        // The lock may be refused, because other sessions request the same locks.
        let wants = |name: LockName, mode: Mode| drop(locks.lock(session, locker, name, mode, brief));
        let hot = |hash: u64| LockName { space: 4_000_000, kind: 3, hash };
        let whole = LockName { space: 4_000_001, kind: LockName::DATABASE, hash: 0 };
        let first = self.random.below(1 << 40);
        wants(whole, if self.random.chance(1, 4) { Mode::S } else { Mode::IX });
        for _ in 0..2 {
            let name = hot(self.random.below(3));
            wants(name, Mode::S);
            wants(name, if self.random.coin() { Mode::X } else { Mode::U });
        }
        for hash in first..first + self.random.below(most) {
            wants(LockName { space: 4_000_002, kind: 3, hash }, Mode::X);
        }
        for hash in 0..3 {
            // The call fails if the lock is not held.
            drop(locks.downgrade(session, locker, hot(hash), Mode::S));
        }
        drop(locks.unlock(session, locker, hot(0)));
        locks.unlock_all(session, locker);
        managers.leave(txn);
        Ok(())
    }

    /// Opens `CROWD` sessions at once. In a new environment, their tables grow.
    pub(super) fn crowd(&mut self) -> Result<()> {
        let managers = self.env.managers();
        let mut all = Vec::with_capacity(CROWD);
        for _ in 0..CROWD {
            all.push(join(&managers)?);
        }
        all.into_iter().for_each(|txn| managers.leave(txn));
        Ok(())
    }

    /// Makes a database, or opens it if it exists.
    pub(super) fn create(&mut self) -> Result<()> {
        let name = format!("made{}", self.random.below(MADE));
        if self.random.coin() {
            return self.env.recno(&format!("{name}r"), 40).map(|_| ());
        }
        if self.random.coin() {
            return self.env.hash(&format!("{name}h")).map(|_| ());
        }
        let made = self.env.btree(&name)?;
        self.env.run(|txn| made.put(txn, b"made", b"by a victim"))
    }

    /// Reads committed records twice through a snapshot. Both reads must agree, although sessions change the records
    /// meanwhile.
    pub(super) fn snapshot(&mut self) -> Result<()> {
        let env = self.env.clone();
        let snapshot = env.snapshot()?;
        let first = self.shown(&snapshot)?;
        // Makes many changes of one record after the snapshot, so that they leave shortcuts.
        let key = format!("touched/{}", self.random.below(10)).into_bytes();
        self.in_txn(true, |churn, txn| {
            (0..24).try_for_each(|_| churn.fill.update_with(txn, &key, |value| value[0] ^= 1).map(drop))
        })?;
        for _ in 0..3 {
            self.touch()?;
        }
        assert!(first == self.shown(&snapshot)?, "a snapshot shows another state than before");
        Ok(())
    }

    pub(super) fn shown(&self, snapshot: &Snapshot<'_>) -> Result<Vec<libtp::Pair>> {
        let mut cursor = self.fill.cursor(snapshot);
        let mut shown = Vec::new();
        while let Some(pair) = cursor.next()?.filter(|_| shown.len() < 200) {
            shown.push(pair);
        }
        self.records.get(snapshot, 1)?;
        self.hash.get(snapshot, b"hash/000000")?;
        Ok(shown)
    }

    /// Opens another handle, makes a change by it, and closes the handle.
    pub(super) fn reopen(&mut self) -> Result<()> {
        let again = Env::builder().log_type(adding()).open(&self.directory)?;
        // This database has pages so large that the new session's undo log must grow.
        let wide = again.btree("wide")?;
        let key = self.random.below(500).to_be_bytes();
        again.run_with(Durability::Relaxed, |txn| wide.put(txn, &key, &[b'w'; 700]))
    }
}
