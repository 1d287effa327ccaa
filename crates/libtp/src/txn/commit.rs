//! The commit of a [`Txn`]: the commit of `libtp-txn`, with plain files, joined memory and decisions about databases if
//! the transaction has any.

use std::sync::Arc;

use libtp_log::Lsn;
use libtp_txn::Committed;
use rio::planted;

use crate::region::generation::Seated;
use crate::region::inner::Inner;
use crate::txn::emptied::Cleared;
use crate::txn::transaction::PreparedFiles;
use crate::{Durability, Error, Result, Txn};

impl Txn<'_> {
    /// Commits the transaction: the paper's `txn_commit`. Returns when the commit is as durable as the transaction
    /// asks; with plain files ([`Txn::create_file`]), when it is on disk and the files are in their places.
    ///
    /// # Errors
    /// `OutcomeUnknown` with its cause when the commit record was written but could not be made durable, for example
    /// because a write to disk failed, or because the process that writes the log for all is stopped and the wait for it
    /// has reached its bound ([`Durability::Sync`]). `FilesWaiting`: the transaction is committed. After any other error
    /// nothing of the transaction is kept.
    pub fn commit(self) -> Result<()> {
        match self.extras.get() {
            None => self.commit_records(),
            Some(_) => self.commit_with_extras(),
        }
    }

    #[inline(never)]
    fn commit_with_extras(mut self) -> Result<()> {
        let Some(group) = self.prepare_files()? else { return self.commit_records() };
        let env = self.env;
        self.durability = group.durability(self.durability);
        self.commit_records()?;
        group.finish(env)
    }

    fn prepare_files(&self) -> Result<Option<Box<dyn PreparedFiles>>> {
        self.extras.get().map_or(Ok(None), |extra| extra.files.prepare(self))
    }

    /// Commits everything but the plain files.
    #[inline]
    pub(crate) fn commit_records(mut self) -> Result<()> {
        let durability = self.durability;
        let is_early = planted("libtp: a commit returns before its record is in memory");
        if is_early {
            let read = self.session().last_lsn();
            self.session().keep(&self.generation().managers, Committed { lsn: read });
        }
        let (seat, committed) = self.finish(durability)?;
        // The planted bug called `keep` above, before the commit record existed, and does not wait for that record
        // here.
        let waits_for = if is_early && durability == Durability::Rio { Durability::Relaxed } else { durability };
        self.answer(seat, committed, durability, waits_for)
    }

    /// Commits the transaction and does not wait for the disk, whatever its durability. Other transactions see its
    /// changes immediately; [`crate::Env::wait_durable`] waits for the disk. If the transaction changes plain files,
    /// this call waits for the disk, too, because other programs see the files.
    ///
    /// # Errors
    /// As [`Txn::commit`].
    pub fn commit_async(mut self) -> Result<CommitLsn> {
        let (env, group) = (self.env, self.prepare_files()?);
        let durability = group.as_ref().map_or(Durability::Relaxed, |group| group.durability(Durability::Relaxed));
        let (seat, committed) = self.finish(durability)?;
        let generation = seat.generation.number();
        // Every transaction sees the commit from now on, and a snapshot taken after this answer must show it.
        self.answer(seat, committed, durability, durability)?;
        group.map_or(Ok(()), |group| group.finish(env))?;
        Ok(CommitLsn { generation, committed })
    }

    /// Writes the commit record, if the transaction needs one. After an error, dropping the transaction aborts it if it
    /// can be aborted.
    #[inline(always)]
    fn finish(&mut self, durability: Durability) -> Result<(Box<Seated>, Committed)> {
        if let Some(extra) = self.extras.get() {
            extra.savepoints.refuse_after_failed_rollback()?;
        }
        let seat = self.seat.take().expect("a transaction holds its session until it ends");
        let Seated { generation, session } = &*seat;
        match generation.check_process() {
            Err(forked) if !planted("libtp: a child of a fork commits its parent's transaction") => {
                *self.seat = Some(seat);
                return Err(forked);
            }
            _ => {}
        }
        let (managers, extra) = (&generation.managers, self.extras.get_mut());
        let ended = generation.guarded_here(session, || {
            // Rio may have been asked for after the transaction began.
            generation.prepare_answer(session, durability)?;
            match extra {
                None => Ok(session.commit_now(managers)?),
                Some(extra) if extra.decided.is_empty() => extra.joined.commit(managers, session, durability),
                Some(extra) => extra.decided.commit(managers, session),
            }
        });
        match ended {
            Ok(committed) => Ok((seat, committed)),
            Err(error) => self.cut_short(seat, error),
        }
    }

    /// Returns the outcome of a commit that ended with an error: the transaction is committed if the region broke, or
    /// the session died, only after the commit record had been written.
    #[cold]
    #[inline(never)]
    fn cut_short(&mut self, seat: Box<Seated>, error: Error) -> Result<(Box<Seated>, Committed)> {
        let Seated { generation, session } = &*seat;
        let decided = match &error {
            Error::Rebuilt if planted("libtp: a commit record during a rebuild is ignored") => session.commit_record(),
            Error::Rebuilt => session.commit_record_noted(),
            Error::Panicked { .. } if !planted("libtp: a commit that panics counts as aborted") => {
                let managers = &generation.managers;
                match generation.guarded(|| Ok(session.commit_record_of_dead(managers)?)) {
                    // Reading the commit record failed, too. The next generation knows whether the record exists.
                    Err(Error::Rebuilt | Error::Panicked { .. }) => {
                        managers.give_up("it cannot be read whether a transaction has committed");
                        session.commit_record_noted()
                    }
                    read => read.map_err(Error::after_commit_record)?,
                }
            }
            _ => Lsn::NONE,
        };
        if decided != Lsn::NONE {
            return Ok((seat, Committed { lsn: decided }));
        }
        if session.commit_record() == Lsn::NONE {
            *self.seat = Some(seat);
            return Err(error);
        }
        // The commit record is written but not known to be durable; the transaction can no longer be aborted.
        self.env.give_session(seat);
        match planted("libtp: a commit of unknown durability is reported as aborted") {
            true => Err(error),
            false => Err(error.after_commit_record()),
        }
    }

    /// Makes a commit as durable as its answer says (`waits_for`), notes the answer, returns the session to the pool
    /// and returns the answer.
    #[inline(always)]
    fn answer(
        &self,
        seat: Box<Seated>,
        committed: Committed,
        durability: Durability,
        waits_for: Durability,
    ) -> Result<()> {
        let Seated { generation, session } = &*seat;
        let failed = match waits_for {
            Durability::Relaxed => None,
            Durability::Sync | Durability::Rio => make_durable(self.env, &seat, committed, waits_for),
        };
        session.note_answer(&generation.managers, waits_for.into());
        // PROTOCOLS D13: checked after the commit record was published.
        let is_given_up =
            generation.managers.region.is_broken() && !planted("libtp: a commit in abandoned memory is answered");
        let has_more = self.extras.get().is_some() || session.has_notes_for_later();
        if is_given_up || has_more || failed.is_some() {
            return self.answer_late(seat, committed, durability, is_given_up, failed);
        }
        self.env.give_back(seat);
        Ok(())
    }

    /// Ends [`Txn::answer`] in the less usual cases: pages are to be freed, the commit could not be made durable, or
    /// the generation has ended. In the last case the next generation knows the outcome.
    #[inline(never)]
    fn answer_late(
        &self,
        seat: Box<Seated>,
        committed: Committed,
        durability: Durability,
        is_given_up: bool,
        failed: Option<Box<Error>>,
    ) -> Result<()> {
        let (env, waited) = (self.env, failed.map_or(Ok(()), |error| Err(*error)));
        let (emptied, number) = (self.emptied(&seat), seat.generation.number());
        // A session that has died in its commit may have written a record of which it does not know.
        let has_changed = seat.session.commit_record() != Lsn::NONE || seat.session.session().is_dead();
        env.give_session(seat);
        if let Some(emptied) = emptied.filter(|_| !is_given_up && waited.is_ok()) {
            emptied.clear_away(env);
        }
        // A transaction that has changed nothing has no outcome: it has only waited for the commits that it read.
        let waited = waited.map_err(|error| if has_changed { error.after_commit_record() } else { error });
        if !is_given_up {
            return waited;
        }
        match env.outcome_of(number, committed.lsn) {
            // A record on disk is kept, whether or not a next generation begins.
            Err(Error::OutcomeUnknown { .. }) if durability == Durability::Sync && waited.is_ok() => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns the ranges of keys and the leaves that the committed transaction has emptied, if any.
    fn emptied(&self, seat: &Seated) -> Option<Cleared> {
        let extra = self.extras.get();
        (extra.is_some() || seat.session.has_notes_for_later())
            .then(|| Cleared::new(extra.map(|extra| &extra.emptied), &seat.session))
    }
}

/// Waits until the commit is on disk, or is in lasting memory. Returns the error if the wait failed.
#[inline(never)]
fn make_durable(env: &Arc<Inner>, seat: &Seated, committed: Committed, durability: Durability) -> Option<Box<Error>> {
    let Seated { generation, session } = seat;
    let last = || Ok(session.make_durable(&generation.managers, committed, durability.into())?);
    let waited = match generation.guarded_by(session, last) {
        // The transaction is committed although its session died here: wait until its commit is on disk.
        Err(Error::Panicked { .. }) => env.wait_durable(generation, committed),
        waited => waited,
    };
    waited.err().map(Box::new)
}

/// The place of a commit in the log, for [`crate::Env::wait_durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLsn {
    pub(crate) generation: u64,
    pub(crate) committed: Committed,
}

impl CommitLsn {
    /// Returns the log sequence number; zero if there was nothing to commit.
    pub fn lsn(self) -> u64 {
        self.committed.lsn.raw()
    }
}
