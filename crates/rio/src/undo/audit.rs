//! The audit of an undo log before its rollback. It checks that a session can have written the log's content.
//!
//! A wild store may have hit the log. A rollback would then store garbage over good data.

use super::{bytes_of, words_of, Undo, UndoLog, CHECKED, PLACE_MASK};
use crate::{Offset, Region, Word};

/// The form of a log's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Form {
    /// Images of whole words, and of words of four bytes.
    Words = 0,
    /// Images of any length and place.
    Bytes = 1,
    /// Images as in `Bytes`, with a checksum in each record.
    Checked = 2,
}

impl Undo {
    pub(super) fn form(&self) -> Option<Form> {
        let forms = [Form::Words, Form::Bytes, Form::Checked];
        forms.get(usize::try_from(self.region.at(self.log).form.load()).ok()?).copied()
    }

    /// Checks that each image in the log is whole, has the log's form and belongs to a place inside the region, and
    /// that a zero follows the last image.
    ///
    /// # Errors
    /// The fault, as a sentence without its full stop.
    pub fn audit(&self) -> Result<(), String> {
        let form = self.form().ok_or("an undo log has a form that no session gave it")?;
        let mut end = 0;
        for record in self.records(0) {
            let header = self.words[record].load();
            let (place, bytes) = (header & PLACE_MASK, bytes_of(header));
            let (is_possible, align) = match form {
                Form::Words => (bytes == 4 || (bytes != 0 && bytes % 8 == 0), bytes.min(8)),
                Form::Bytes | Form::Checked => (bytes != 0, 1),
            };
            let is_form = (header & CHECKED != 0) == (form == Form::Checked);
            if !is_possible || !is_form || place == 0 || self.region.place(place, bytes, align).is_none() {
                return Err(format!("an undo log has an image of {bytes} bytes at {place}, which no session saved"));
            }
            end = record + 1 + words_of(header);
        }
        if end < self.words.len() {
            Ok(())
        } else {
            Err("an undo log has no end".into())
        }
    }

    /// As [`Undo::open`], or `None` if the log or its area is outside the region.
    pub fn try_open(region: &Region, log: Offset<UndoLog>) -> Option<Undo> {
        let header = region.try_at(log)?;
        let bytes = usize::try_from(header.words.get().checked_mul(8).filter(|bytes| *bytes != 0)?).ok()?;
        region.place(header.area.load()?.raw(), bytes, 8)?;
        Some(Undo::open(region, log))
    }

    /// Returns the place and the length of every before-image, the oldest first.
    pub fn saved(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        // If records have checksums, only a reading of the whole log shows which records are valid, so a list of the
        // valid records is made.
        let checked = (self.form() == Some(Form::Checked)).then(|| self.records(0).into_iter());
        let (mut listed, mut at) = (checked, 0);
        std::iter::from_fn(move || {
            let record = listed.as_mut().map_or(Some(at), Iterator::next)?;
            let header = self.words.get(record).map(Word::get).filter(|&header| header != 0)?;
            at = record + 1 + words_of(header);
            Some((header & PLACE_MASK, bytes_of(header) as u64))
        })
    }

    /// Returns whether there is a before-image. Unlike [`Undo::has_images`], ignores records of an earlier sequence.
    pub fn has_saved(&self) -> bool {
        self.has_images() && (self.form() != Some(Form::Checked) || !self.records(0).is_empty())
    }

    /// Returns the place and the length of the log's header.
    pub fn header_place(&self) -> (u64, u64) {
        (self.log.raw(), size_of::<super::UndoLog>() as u64)
    }
}
