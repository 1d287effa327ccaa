//! Lists for the tools: every lock, and the size of the table.

use libtp_process::{Session, SessionId};

use crate::name::LockName;
use crate::queue::Queue;
use crate::table::Bucket;
use crate::thin::{ThinWords, WORDS, WORD_BITS};
use crate::{LockManager, LockerId, Mode};

/// One request, as `tp locks` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The object.
    pub name: LockName,
    /// The locker of the request.
    pub locker: LockerId,
    /// The session that most recently made the locker, took it over, or waited with it.
    pub session: SessionId,
    /// The mode held.
    pub granted: Option<Mode>,
    /// The mode waited for.
    pub wanted: Option<Mode>,
}

/// The size of the lock table, and counts of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The number of buckets.
    pub buckets: u32,
    /// The number of slots for requests.
    pub slots: u32,
    /// Lockers in use.
    pub lockers: u32,
    /// Bytes of the lock table in the region.
    pub bytes: u64,
    /// Waits so far.
    pub waits: u64,
    /// Deadlocks resolved so far.
    pub deadlocks: u64,
}

impl LockManager {
    /// Returns every request. The requests for one object are read at one moment; the requests for different objects
    /// are read at different moments.
    pub fn dump(&self, session: &Session) -> Vec<LockInfo> {
        let mut infos = Vec::new();
        for number in 0..self.table.header.bucket_count.load() {
            let bucket = self.table.bucket(number);
            let _guard = bucket.latch.exclusive(session, libtp_process::Rank::LOCK_BUCKET);
            self.queues(bucket).for_each(|queue| infos.extend(self.infos(queue)));
            infos.extend(self.thin_infos(number, bucket.level.get()));
        }
        infos
    }

    /// Returns the table's size and counts.
    pub fn stats(&self) -> Stats {
        let header = &self.table.header;
        let (buckets, slots) = (self.table.buckets.capacity(), self.table.requests.capacity());
        let lockers = self.table.lockers.capacity();
        let bytes = u64::from(buckets) * size_of::<Bucket>() as u64
            + u64::from(slots) * crate::request::REQUEST_BYTES
            + u64::from(lockers) * size_of::<crate::locker::LockerSlot>() as u64
            + size_of::<ThinWords>() as u64;
        let in_use = self.lockers().filter(|&number| self.table.locker(number).in_use.load() != 0).count();
        Stats {
            buckets: header.bucket_count.load(),
            slots,
            lockers: u32::try_from(in_use).unwrap_or(u32::MAX),
            bytes,
            waits: header.wait_count.load(),
            deadlocks: header.deadlock_count.load(),
        }
    }

    /// Returns the queues of a bucket. The caller holds the bucket's latch.
    pub(crate) fn queues<'t>(&'t self, bucket: &'t Bucket) -> impl Iterator<Item = Queue<'t>> {
        let heads = bucket.chains.iter().flat_map(|chain| {
            std::iter::successors(chain.get().some(), |&place| self.table.request(place).chain_next.get().some())
        });
        heads.map(|place| Queue::new(&self.table, place))
    }

    /// Returns the thin locks whose names belong to the bucket. The caller holds the bucket's latch.
    fn thin_infos(&self, bucket: u32, level: u32) -> impl Iterator<Item = LockInfo> + '_ {
        let numbers = (bucket as usize..WORDS as usize).step_by(1 << level.min(WORD_BITS));
        numbers.filter_map(|number| self.thin_info(number))
    }

    fn thin_info(&self, number: usize) -> Option<LockInfo> {
        let word = &self.table.words.words[number];
        let seen = word.load();
        let request = self.table.request(seen.place().some()?);
        let locker = request.locker.get();
        let info = LockInfo {
            name: request.lock_name(),
            locker: LockerId(locker),
            session: self.table.locker(locker).session.load(),
            granted: seen.mode(),
            wanted: None,
        };
        // The owner may have released the lock meanwhile, and used the slot again. If the request has moved into a
        // queue meanwhile, it is listed with that queue, so it is left out here.
        (request.state.get().is_thin() && word.load() == seen).then_some(info)
    }

    fn infos<'t>(&'t self, queue: Queue<'t>) -> impl Iterator<Item = LockInfo> + 't {
        let name = queue.head.lock_name();
        let in_force = queue
            .requests()
            .filter(move |&(place, request)| queue.held_bit(place, request) != 0 || request.state.get().waits());
        in_force.map(move |(_, request)| {
            let (locker, state) = (request.locker.get(), request.state.get());
            LockInfo {
                name,
                locker: LockerId(locker),
                session: self.table.locker(locker).session.load(),
                granted: state.granted(),
                wanted: state.wanted(),
            }
        })
    }
}
