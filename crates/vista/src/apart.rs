//! A page of an automatic range cannot be saved, since the disk is full: the transaction goes on apart.
//!
//! Paper: a departure; nothing is said there of a log that cannot grow. The store that faulted cannot be refused, for nobody has
//! called anything. So from there on the flat part is the program's alone, a private copy that comes to no file: the work goes
//! on to its end, and is then told that nothing of it stands. What was stored before is in the undo log.
//!
//! If we die here: the file has what was stored before, which whoever maps it next takes back.

use std::io::Write as _;

use crate::{Error, Result, Segment};

impl Segment {
    /// What is stored from now on does not come to the file.
    pub(crate) fn go_on_apart(&mut self, why: Error) {
        let is_apart = self.view.set_apart(self.from, self.flat_end(), true);
        is_apart.unwrap_or_else(|error| self.end_process(&error.into()));
        if let Some(guarded) = &mut self.guarded {
            guarded.apart = Some(why);
        }
    }

    /// Whether what was stored came to the file: why not. In a child of the process that has the segment it is nobody's.
    pub(crate) fn refuse_if_apart(&mut self) -> Result<()> {
        self.check_process()?;
        match self.guarded.as_mut().and_then(|guarded| guarded.apart.take()) {
            None => Ok(()),
            Some(why) => {
                self.come_back();
                Err(why)
            }
        }
    }

    /// The flat part is the file's again. It is closed, as between transactions.
    fn come_back(&mut self) {
        let is_back = self.view.set_apart(self.from, self.flat_end(), false);
        let is_back = is_back.and_then(|()| self.view.set_writable_part(self.from, self.flat_end(), false));
        is_back.unwrap_or_else(|error| self.end_process(&error.into()));
    }

    /// What is shown is not what the file has, and nobody can be told otherwise.
    fn end_process(&self, error: &Error) -> ! {
        // The process's last words, whoever listens.
        let _ = writeln!(
            std::io::stderr(),
            "{error}. A transaction on the segment {} cannot go on: the process ends, and whoever opens the segment takes it back",
            self.path().display()
        );
        std::process::abort()
    }
}
