//! A cache of sessions that all processes of a web service share: found by token, ended by time or by user.
//!
//! `cargo run --release -p libtp --example session_cache`
//!
//! Sessions survive the death and the restart of any process of the service. Their commits do not wait for the disk: a
//! loss of power loses the last tenth of a second of logins, and nothing older.

use std::io::Write;
use std::path::Path;

use libtp::{Durability, Env, Result, Table};

/// The sessions, and the ways to find them. All three tables change in one transaction.
pub struct Sessions {
    env: Env,
    /// The key is the token. The value is the time when the session ends, and its user.
    by_token: Table<String, (u64, String)>,
    /// The key is the time when the session ends, and the token: so the sessions are in the order in which they end.
    by_end: Table<(u64, String), ()>,
    /// The key is the user and the token.
    by_user: Table<(String, String), ()>,
}

impl Sessions {
    /// Opens the cache, and makes it if it is missing.
    pub fn open(path: &Path) -> Result<Sessions> {
        let env = Env::builder().durability(Durability::Relaxed).open(path)?;
        let (by_token, by_end, by_user) = (env.table("sessions")?, env.table("by end")?, env.table("by user")?);
        Ok(Sessions { env, by_token, by_end, by_user })
    }

    /// Begins a session, or prolongs one.
    pub fn put(&self, token: &str, user: &str, end: u64) -> Result<()> {
        self.env.run(|txn| {
            if let Some((old_end, _)) = self.by_token.get_for_update(txn, token)? {
                self.by_end.delete(txn, (old_end, token))?;
            }
            self.by_token.put(txn, token, (end, user))?;
            self.by_end.put(txn, (end, token), ())?;
            self.by_user.put(txn, (user, token), ())
        })
    }

    /// Returns the user of a session that has not ended. Waits for no writer.
    pub fn user(&self, token: &str, now: u64) -> Result<Option<String>> {
        let found = self.by_token.get(&self.env.snapshot()?, token)?;
        Ok(found.filter(|(end, _)| *end > now).map(|(_, user)| user))
    }

    /// Ends all sessions of a user; returns their number.
    pub fn log_out(&self, user: &str) -> Result<usize> {
        self.env.run(|txn| {
            let mut ended = 0;
            for row in self.by_user.with_first(txn, user)? {
                let ((_, token), ()) = row?;
                if let Some((end, _)) = self.by_token.take(txn, &token)? {
                    self.by_end.delete(txn, (end, &token))?;
                    ended += 1;
                }
                self.by_user.delete(txn, (user, &token))?;
            }
            Ok(ended)
        })
    }

    /// Removes the sessions that ended before `now`; returns their number.
    pub fn sweep(&self, now: u64) -> Result<usize> {
        self.env.run(|txn| {
            let mut removed = 0;
            for row in self.by_end.range(txn, ..(now, ""))? {
                let ((end, token), ()) = row?;
                if let Some((_, user)) = self.by_token.take(txn, &token)? {
                    self.by_user.delete(txn, (&user, &token))?;
                }
                self.by_end.delete(txn, (end, &token))?;
                removed += 1;
            }
            Ok(removed)
        })
    }
}

/// Begins, finds, sweeps and ends sessions, and prints the results.
pub fn show(path: &Path, out: &mut impl Write) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let sessions = Sessions::open(path)?;
    for (token, user, end) in [("t1", "ada", 10), ("t2", "ada", 30), ("t3", "alan", 40), ("t1", "ada", 20)] {
        sessions.put(token, user, end)?;
    }
    // Another process of the service would open the cache in the same way.
    let other = Sessions::open(path)?;
    writeln!(out, "t1 at 15: {:?}, at 25: {:?}", other.user("t1", 15)?, other.user("t1", 25)?)?;
    writeln!(out, "swept at 25: {}", other.sweep(25)?)?;
    writeln!(out, "logged out: {}", sessions.log_out("ada")?)?;
    writeln!(out, "t2: {:?}, t3: {:?}", sessions.user("t2", 0)?, sessions.user("t3", 0)?)?;
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    show(&directory.path().join("sessions"), &mut std::io::stdout())
}
