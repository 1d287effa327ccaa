//! If the disk is full and a page cannot be saved, a transaction with automatic ranges continues on a private copy of
//! the flat part.
//!
//! Paper: a departure; the paper does not treat a log that cannot grow. The store that faulted cannot return an error.
//! So the flat part becomes a private copy that never reaches the file. The work continues to its end and then gets an
//! error, and none of its stores is kept. The undo log has the old bytes of the earlier stores.
//!
//! If we die here: the file has the earlier stores, and the next process that maps the file undoes them.

use std::io::Write as _;

use crate::{Error, Result, Segment};

impl Segment {
    /// Keeps all later stores out of the file, for the reason `why`.
    pub(crate) fn privatize_flat(&mut self, why: Error) {
        let is_apart = self.view.set_apart(self.from, self.flat_end(), true);
        is_apart.unwrap_or_else(|error| self.end_process(&error.into()));
        if let Some(guarded) = &mut self.guarded {
            guarded.apart = Some(why);
        }
    }

    /// Fails with the reason if the transaction's stores did not reach the file. Also fails in a child of the process
    /// that has the segment.
    pub(crate) fn refuse_if_apart(&mut self) -> Result<()> {
        self.check_process()?;
        match self.guarded.as_mut().and_then(|guarded| guarded.apart.take()) {
            None => Ok(()),
            Some(why) => {
                self.reattach_flat();
                Err(why)
            }
        }
    }

    /// Maps the file's flat part again. The flat part is then closed to stores, as between transactions.
    fn reattach_flat(&mut self) {
        let is_back = self.view.set_apart(self.from, self.flat_end(), false);
        let is_back = is_back.and_then(|()| self.view.set_writable_part(self.from, self.flat_end(), false));
        is_back.unwrap_or_else(|error| self.end_process(&error.into()));
    }

    /// Ends the process: the program sees other bytes than the file has, and no caller can get an error.
    fn end_process(&self, error: &Error) -> ! {
        // The last message of the process; a failure to write it has no consequence.
        let _ = writeln!(
            std::io::stderr(),
            "{error}. A transaction on the segment {} cannot continue: the process ends, and the next process that opens the segment undoes the transaction",
            self.path().display()
        );
        std::process::abort()
    }
}
