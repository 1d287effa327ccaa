//! Whether what lies in an undo log can have been written by a session: looked at before anything of it is put back.
//!
//! A wild store may have hit the log. What it says would then be stored over what is good.

use super::{bytes_of, words_of, Undo, CHECKED, PLACE_MASK};

/// What the records of a log may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Form {
    /// Images of whole words, and of words of four bytes.
    Words = 0,
    /// Images of whatever length and place.
    Bytes = 1,
    /// As `Bytes`, each with a checksum.
    Checked = 2,
}

impl Undo {
    pub(super) fn form(&self) -> Form {
        match self.region.at(self.log).form.load() {
            0 => Form::Words,
            1 => Form::Bytes,
            2 => Form::Checked,
            other => panic!("an undo log has the form {other}, which no session gave it"),
        }
    }

    /// Asserts that there are only whole images of places inside the region, in the form that the log says it has, and a
    /// zero behind them.
    pub(super) fn check(&self) {
        let form = self.form();
        let mut end = 0;
        for record in self.records(0) {
            let header = self.words[record].load();
            let (place, bytes) = (header & PLACE_MASK, bytes_of(header));
            let (is_possible, align) = match form {
                Form::Words => (bytes == 4 || (bytes != 0 && bytes % 8 == 0), bytes.min(8)),
                Form::Bytes | Form::Checked => (bytes != 0, 1),
            };
            let is_form = (header & CHECKED != 0) == (form == Form::Checked);
            assert!(
                is_possible && is_form && place != 0 && self.region.place(place, bytes, align).is_some(),
                "an undo log has an image of {bytes} bytes at {place}, which no session saved"
            );
            end = record + 1 + words_of(header);
        }
        assert!(end < self.words.len(), "an undo log has no end");
    }
}
