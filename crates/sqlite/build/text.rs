//! Changes of a text at given places. It is an error if a place is missing, or occurs twice.

/// The text of the amalgamation.
pub struct Text(String);

/// A change at one place.
pub struct Patch {
    /// The purpose of the change, for error messages.
    pub name: &'static str,
    /// A text that occurs once. The search for the place begins after this text.
    pub after: &'static str,
    /// The text to replace: its first occurrence within [`REACH`] bytes after `after`.
    pub at: &'static str,
    /// The new text. [`SAME`] in it stands for the replaced text.
    pub put: &'static str,
}

/// A mark in a patch. It stands for the text that the patch replaces.
pub const SAME: &str = "<SAME>";

/// The largest distance of a place from the text before it, in bytes: about the length of a long function.
const REACH: usize = 8000;

impl Text {
    pub fn new(text: String) -> Text {
        Text(text)
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the text between two texts that occur once each.
    pub fn between(&self, from: &str, to: &str) -> Result<&str, String> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        self.0.get(from..to).ok_or_else(|| "the parts of the source are in an unknown order".into())
    }

    /// Puts the text `put` before the text `at`, which must occur once.
    pub fn put_before(&mut self, at: &str, put: &str) -> Result<(), String> {
        let place = self.place(at)?;
        self.0.insert_str(place, put);
        Ok(())
    }

    /// Puts the text `put` after the line that contains the text `at`, which must occur once.
    pub fn put_after_line(&mut self, at: &str, put: &str) -> Result<(), String> {
        let place = self.place(at)?;
        let end = self.0[place..].find('\n').ok_or("the last line has no end")?;
        self.0.insert_str(place + end + 1, put);
        Ok(())
    }

    pub fn patch(&mut self, patch: &Patch) -> Result<(), String> {
        let unknown = |what: String| {
            format!("this version of SQLite is unknown: there is no place for the patch \"{}\": {what}", patch.name)
        };
        let from = self.place(patch.after).map_err(unknown)? + patch.after.len();
        let end = (from + REACH).min(self.0.len());
        let within = self.0.get(from..end).ok_or_else(|| unknown("the text is not ASCII".into()))?;
        let at = within
            .find(patch.at)
            .ok_or_else(|| unknown(format!("{:?} does not follow {:?}", patch.at, patch.after)))?;
        let place = from + at;
        self.0.replace_range(place..place + patch.at.len(), &patch.put.replace(SAME, patch.at));
        Ok(())
    }

    fn place(&self, of: &str) -> Result<usize, String> {
        let mut places = self.0.match_indices(of).map(|(place, _)| place);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(format!("{of:?} does not occur")),
            (Some(_), Some(_)) => Err(format!("{of:?} occurs more than once")),
        }
    }
}
