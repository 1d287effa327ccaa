//! The guard makes a store fault if no transaction has declared the bytes.
//!
//! Paper: Rio Vista, section 3: "Rio protects the file cache from wild stores by the virtual memory protection of the
//! machine". Here the protection is a setting, since it costs more than all other work of a transaction. With
//! protection by pages, a page is writable only while a transaction has a range in it. With protection keys, if the
//! processor has them, a thread may store only while its transaction has declared a range.
//!
//! A store that the guard stops ends the process, as any fault does, after a message with the store's address.

use rio::{Key, Region, View, Watch};

use crate::{Error, Result};

/// Whether and how stores outside of declared ranges are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Guard {
    /// Stores outside of declared ranges are not stopped.
    #[default]
    Off,
    /// By protection keys if the processor has them, else by pages.
    On,
    /// By pages: a transaction may store only to pages in which it has a range.
    Pages,
    /// By a protection key: between a transaction's first declaration and its end, its thread may store anywhere in the
    /// segment, and no other thread may store there. A thread may load only after this thread has got bytes of the
    /// segment by a call.
    Keys,
}

/// The state of a segment's guard.
pub(crate) struct Guarded {
    /// The page ranges that may be stored to: from, to.
    pub(crate) open: Vec<(u64, u64)>,
    /// `None` if no guard is set. Then this state exists only because a transaction with automatic ranges has left the
    /// flat part closed: opening and closing all of the flat part takes long, and the next transaction may have
    /// automatic ranges, too.
    pub(crate) watch: Option<Watch>,
    /// Whether the transaction has automatic ranges.
    pub(crate) is_automatic: bool,
    /// The reason why the transaction's stores no longer reach the file; `None` while they do.
    pub(crate) apart: Option<Error>,
}

impl Guard {
    /// Resolves `On` to the kind of guard that the processor allows.
    pub(crate) fn chosen(self, has_keys: bool) -> Guard {
        match (self, has_keys) {
            (Guard::On, true) => Guard::Keys,
            (Guard::On, false) => Guard::Pages,
            (said, _) => said,
        }
    }

    /// Guards the view.
    pub(crate) fn begin(self, region: &Region, view: &mut View) -> Result<Option<Box<Guarded>>> {
        let refused = |source| {
            let path = region.path().to_path_buf();
            Error::System { path, call: "guarding by protection keys or by faults", source }
        };
        match self.chosen(Key::is_possible()) {
            Guard::Off => return Ok(None),
            Guard::Keys => view.set_key(Key::take().map_err(refused)?)?,
            Guard::Pages | Guard::On => view.set_writable(false)?,
        }
        let (from, name) = (view.address(), format!("the segment {}", region.path().display()));
        let bytes = usize::try_from(region.reserved()).unwrap_or(usize::MAX);
        let watch = Watch::refuse(from..from.saturating_add(bytes), &name).map_err(refused)?;
        Ok(Some(Box::new(Guarded { open: Vec::new(), watch: Some(watch), is_automatic: false, apart: None })))
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;

    #[test]
    fn protection_keys_are_chosen_if_the_processor_has_them() {
        assert_eq!([true, false].map(|has| Guard::On.chosen(has)), [Guard::Keys, Guard::Pages]);
        for said in [Guard::Off, Guard::Pages, Guard::Keys] {
            assert_eq!([true, false].map(|has| said.chosen(has)), [said, said]);
        }
    }
}
