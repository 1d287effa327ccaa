//! The writer's role: only one session of the environment writes pages at a time.

use std::time::Duration;

use libtp_process::{leaves_roles, Session, SessionId};
use rio::{failpoint, planted, Region};

use crate::frame::FrameSlot;
use crate::BufferManager;

/// The longest sleep between two checks of a session that waits to write, or waits for another session's write.
pub(super) const SLICE: Duration = Duration::from_micros(300);

/// A planted bug: pages of a discarded region are written.
const WRITES_IN_BROKEN: &str = "buffer: a session writes pages in a broken region";

/// Leaves the call if the region was discarded. Called before each write. A session that builds a new region waits for
/// a running write, but only for a limited time. A sync may take longer, and the writes after it would then write pages
/// of the old region (PROTOCOLS D13).
pub(super) fn leave_given_up(session: &Session) {
    if is_given_up(session.region()) {
        session.leave_if_broken();
    }
}

/// Returns whether the region was discarded. Called before each page that is written whole, by several threads.
pub(super) fn is_given_up(region: &Region) -> bool {
    region.is_broken()
        && !planted(WRITES_IN_BROKEN)
        && !planted("buffer: after a long sync, a writer continues in a broken region")
}

/// The writer's role, which is released when this value is dropped.
pub(super) struct Writer<'m> {
    manager: &'m BufferManager,
    me: SessionId,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if leaves_roles(&self.manager.region) {
            return;
        }
        // The swap fails if this session was considered dead: then another session has the role.
        let _ = self.manager.header.writer.compare_exchange(self.me, SessionId::NONE);
    }
}

impl BufferManager {
    /// Returns the session that writes pages now; `SessionId::NONE` if no session does.
    pub fn writer(&self) -> SessionId {
        self.header.writer.load()
    }

    /// Waits until the session has the writer's role, which is then in `role`. Returns at once if `role` has it already.
    pub(super) fn wait_for_role<'m>(&'m self, session: &Session, role: &mut Option<Writer<'m>>) {
        for round in 0_u32.. {
            if role.is_some() {
                return;
            }
            *role = self.try_become_writer(session);
            if round < 10 {
                std::thread::yield_now();
            } else {
                session.sleep(SLICE);
            }
        }
    }

    /// Cancels the claims of the writer, if the writer is dead.
    pub(crate) fn settle_dead_writer(&self, session: &Session) {
        let holder = self.header.writer.load();
        if holder != SessionId::NONE && !session.processes().is_alive(holder) {
            drop(self.try_become_writer(session));
        }
    }

    /// Takes the writer's role, unless a living session has it.
    pub(super) fn try_become_writer(&self, session: &Session) -> Option<Writer<'_>> {
        let me = session.id();
        let holder = self.header.writer.load();
        let is_dead = holder != SessionId::NONE && !session.processes().is_alive(holder);
        let is_dead = is_dead && !planted("buffer: sessions wait for a dead writer");
        if holder != SessionId::NONE && !is_dead {
            return None;
        }
        failpoint("buffer: about to become the writer");
        if self.header.writer.compare_exchange(holder, me).is_err() {
            return None;
        }
        let writer = Writer { manager: self, me };
        // Checked while this session has the role: a session that builds a new region waits until no session has the
        // role.
        if !planted(WRITES_IN_BROKEN) {
            session.leave_if_broken();
        }
        failpoint("buffer: became the writer");
        if is_dead && !self.is_failed() && !planted("buffer: the claims of a dead writer are not undone") {
            // Only the writer has claims. If this session dies while it cancels them, the next writer continues.
            let parts = self.pools.parts();
            let claimed =
                parts.iter().flat_map(|(_, part)| part.frames()).filter(|slot| !slot.unsynced.load().is_none());
            failpoint("buffer: about to undo claims of a dead writer");
            claimed.for_each(FrameSlot::undo_write);
        }
        Some(writer)
    }
}
