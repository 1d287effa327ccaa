//! The errors of an opening that fails after it has changed files: recovery, or the creation of an environment, was
//! begun. The errors of the lower crates state that their call changed nothing. That is not true of the opening, so
//! these statements are left out, and the message says what holds.

use super::error::Error;

/// What an opening had begun when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The environment existed, and the restart had begun to change its files.
    Recovery,
    /// The environment was new.
    Creation,
}

/// The statements that do not hold for an opening that has changed files. An open environment is needed to use other
/// pages.
const UNTRUE: [&str; 5] = [
    "; nothing was changed; other pages can be used",
    ", and nothing was changed",
    "; nothing was changed",
    " Nothing was changed by this call;",
    " Nothing was changed;",
];

impl Begun {
    fn sentence(self, cause: &str) -> String {
        let cause = UNTRUE.iter().fold(cause.to_owned(), |text, untrue| text.replace(untrue, ""));
        let cause = cause.trim_end_matches('.');
        match self {
            Begun::Recovery => format!("recovery was begun and could not be finished: {cause}. This attempt loses no commit; when the cause is removed, the next opening repeats the recovery"),
            Begun::Creation => format!("the creation of the environment was begun and could not be finished: {cause}. The environment has no record yet; when the cause is removed, the next opening finishes the creation"),
        }
    }
}

impl Error {
    /// Replaces an error that followed the first change of a file by an opening. The variant stays where a caller acts
    /// by the variant.
    pub(crate) fn after(self, begun: Begun) -> Error {
        match self {
            Error::Full { what, source } => Error::Full { what, source: begun.sentence(&source.to_string()).into() },
            Error::Corrupt(damage) => Error::Corrupt(damage.map_message(|message| begun.sentence(message))),
            Error::LogType { code, name, what } => Error::LogType { code, name, what: begun.sentence(&what) },
            Error::Database { name, what } => Error::Database { name, what: begun.sentence(&what) },
            Error::FileMissing { name, what } => Error::FileMissing { name, what: begun.sentence(&what) },
            // The messages of these errors name the kept commits, and no statement in them is untrue.
            known @ (Error::Failed(_) | Error::Rebuilt | Error::Panicked { .. } | Error::Forked { .. }) => known,
            other => Error::Io(begun.sentence(&other.to_string()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Begun;
    use crate::Error;

    /// Returns every error that an opening may return after it has changed files.
    fn errors() -> Vec<Error> {
        let page = libtp_buffer::Error::Corrupt {
            file: "stock.tp".into(),
            page: libtp_buffer::PageNo::new(7),
            what: "its checksum is wrong".into(),
        };
        let full = || rio::Error::Full { path: "/dev/shm/region".into(), bytes: 4096 };
        vec![
            page.into(),
            full().into(),
            libtp_buffer::Error::from(full()).into(),
            rio::Error::Reserve { path: "region".into(), reserve: 1 << 20 }.into(),
            libtp_buffer::Error::Register { what: "it is short".into() }.into(),
            libtp_buffer::Error::Unsuitable { name: "stock".into(), what: "it is a list".into() }.into(),
            Error::Environment {
                environment: "/data".into(),
                what: "the file region is a directory. Remove it".into(),
            },
        ]
    }

    #[test]
    fn an_error_after_the_first_change_of_a_file_does_not_state_that_nothing_was_changed() {
        for (before, error) in errors().into_iter().zip(errors()) {
            let (kind, after) = (std::mem::discriminant(&before), error.after(Begun::Recovery));
            let text = after.to_string();
            let before = before.to_string();
            assert!(before.contains("othing was changed") || before.contains("nothing was lost"), "{before}");
            assert!(text.contains("recovery was begun and could not be finished"), "{text}");
            assert!(text.contains("loses no commit; when the cause is removed, the next opening repeats"), "{text}");
            assert!(!text.contains("othing was changed") && !text.contains(".."), "{text}");
            let is_kept = std::mem::discriminant(&after) == kind;
            assert!(is_kept || matches!(after, Error::Io(_)), "{text}");
        }
        let Error::Corrupt(damage) = errors().swap_remove(0).after(Begun::Recovery) else { panic!("another variant") };
        assert_eq!((damage.file.as_deref(), damage.page), (Some("stock.tp"), Some(7)));
        let text = errors().swap_remove(1).after(Begun::Creation).to_string();
        assert!(text.contains("the next opening finishes the creation") && !text.contains("recovery"), "{text}");
    }
}
