//! The settings that an environment stores for all its connections: `PRAGMA tp_rowid` and `PRAGMA tp_immediate`.
//!
//! The settings are stored in two header values that SQLite does not use. Every writing transaction reads these
//! values and so locks them for reading. So a change of a setting waits until no writer is open, and has an effect on
//! all later transactions.

use crate::answer::{Outcome, Refusal, ERROR};
use crate::meta::Meta;
use crate::rowid::Rule;

/// A setting: its name, its index in the header values, and the words for its values 0 and 1. The value 0 is the
/// default.
pub(crate) struct Setting {
    name: &'static str,
    pub(crate) place: usize,
    words: [&'static str; 2],
}

const ROWID: Setting = Setting { name: "tp_rowid", place: 9, words: ["exact", "free"] };
const IMMEDIATE: Setting = Setting { name: "tp_immediate", place: 10, words: ["together", "alone"] };

impl Setting {
    pub(crate) fn of_name(name: &str) -> Outcome<&'static Setting> {
        let known = [&ROWID, &IMMEDIATE].into_iter().find(|setting| setting.name.eq_ignore_ascii_case(name));
        known.ok_or_else(|| Refusal::new(ERROR, format!("there is no setting {name}")))
    }

    pub(crate) fn is_of_rowids(&self) -> bool {
        self.place == ROWID.place
    }

    /// Returns the word for the present value.
    pub(crate) fn word(&self, meta: &Meta) -> &'static str {
        self.words[usize::from(self.is_second(meta))]
    }

    /// Returns the value for a word.
    pub(crate) fn value(&self, word: &str) -> Outcome<u32> {
        let [first, second] = self.words;
        match word {
            _ if word.eq_ignore_ascii_case(first) => Ok(0),
            _ if word.eq_ignore_ascii_case(second) => Ok(1),
            _ => Err(Refusal::new(
                ERROR,
                format!("{} is {first} or {second}, not {word}; nothing was changed", self.name),
            )),
        }
    }

    fn is_second(&self, meta: &Meta) -> bool {
        meta.get(self.place) != 0
    }
}

impl Meta {
    /// Returns the rule for new rowids.
    pub(crate) fn rowid_rule(&self) -> Rule {
        if ROWID.is_second(self) {
            Rule::Free
        } else {
            Rule::Exact
        }
    }

    /// Returns whether BEGIN IMMEDIATE keeps all other writers out, as BEGIN EXCLUSIVE does.
    pub(crate) fn runs_immediate_alone(&self) -> bool {
        IMMEDIATE.is_second(self)
    }
}
