//! A description of damage: the file, the page, and the fault.

use std::fmt;

/// A file, page or log record is damaged.
///
/// ```
/// fn report(error: &libtp::Error) {
///     if let libtp::Error::Corrupt(damage) = error {
///         println!("{}, page {:?}: {}", damage.file.as_deref().unwrap_or("-"), damage.page, damage.what);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The name of the file in its directory; `None` if the damage belongs to no single file.
    pub file: Option<String>,
    /// The page of the file; `None` if the file has no pages, or the damage is not in one page.
    pub page: Option<u32>,
    /// The byte of the file at which the damage was found, for a segment of the log.
    pub offset: Option<u64>,
    /// The fault. The message of the error also names the place of the damage and the remedy.
    pub what: String,
    /// The whole message, if it says more than `what`.
    message: Option<String>,
}

impl Damage {
    /// Returns the damage of `file`: `what` is the fault, and `message` is the whole message.
    pub(crate) fn in_file(file: &str, what: &str, message: String) -> Box<Damage> {
        let (file, what) = (Some(file.to_string()), what.to_string());
        Box::new(Damage { file, page: None, offset: None, what, message: Some(message) })
    }

    /// Returns the damage at a byte of a file.
    pub(crate) fn at_byte(file: &str, offset: u64, what: &str, message: String) -> Box<Damage> {
        Box::new(Damage { offset: Some(offset), ..*Damage::in_file(file, what, message) })
    }

    /// Adds a sentence to the message.
    pub(crate) fn and(mut self: Box<Damage>, sentence: &str) -> Box<Damage> {
        self.message = Some(format!("{self}. {sentence}"));
        self
    }

    /// Returns the damage in a page of a file.
    pub(crate) fn in_page(file: &str, page: u32, what: &str, message: String) -> Box<Damage> {
        Box::new(Damage { page: Some(page), ..*Damage::in_file(file, what, message) })
    }

    /// Changes the whole message; file, page and fault stay.
    pub(crate) fn map_message(mut self: Box<Self>, change: impl FnOnce(&str) -> String) -> Box<Damage> {
        self.message = Some(change(&self.to_string()));
        self
    }
}

impl From<String> for Box<Damage> {
    fn from(what: String) -> Box<Damage> {
        Box::new(Damage { file: None, page: None, offset: None, what, message: None })
    }
}

impl From<&str> for Box<Damage> {
    fn from(what: &str) -> Box<Damage> {
        what.to_string().into()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.as_ref().unwrap_or(&self.what))
    }
}

#[cfg(test)]
mod tests {
    use crate::Error;

    #[test]
    fn damage_has_the_file_the_page_and_the_message_of_the_lower_error() {
        let lower =
            libtp_record::Error::Corrupt { file: "stock.tp".into(), page: 7, what: "its keys are not in order".into() };
        let sentence = lower.to_string();
        let error = Error::from(lower);
        assert_eq!(error.to_string(), format!("damaged: {sentence}"));
        let Error::Corrupt(damage) = error else { panic!("{error}") };
        assert_eq!((damage.file.as_deref(), damage.page), (Some("stock.tp"), Some(7)));
        assert_eq!(damage.what, "its keys are not in order");
        assert_eq!(Error::Corrupt("the log ends too early".into()).to_string(), "damaged: the log ends too early");
    }
}
