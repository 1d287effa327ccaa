//! The lowest floor: errors, settings and other plain data that every floor uses.
//! Nothing here calls another floor.

/// Converts an enum of a lower crate to our own enum with the same variants, and back.
macro_rules! same_variants {
    ($lower:ident, $own:ident: $($variant:ident)*) => {
        impl From<$lower::$own> for $own {
            #[inline]
            fn from(lower: $lower::$own) -> $own {
                match lower {
                    $($lower::$own::$variant => $own::$variant,)*
                }
            }
        }

        impl From<$own> for $lower::$own {
            #[inline]
            fn from(own: $own) -> $lower::$own {
                match own {
                    $($own::$variant => $lower::$own::$variant,)*
                }
            }
        }
    };
}

pub(crate) mod damage;
pub(crate) mod durability;
pub(crate) mod error;
pub(crate) mod lock_wait;
pub(crate) mod locks;
pub(crate) mod mutex;
pub(crate) mod process_state;
pub(crate) mod progress;
pub(crate) mod records;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod unfinished_opening;
pub(crate) mod utc;
