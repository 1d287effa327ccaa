//! Values of types that serde knows, in the format of postcard (a public specification, stable since its version 1).
//!
//! The bytes hold no names: a field that is added, removed or moved changes the format. A program that changes a type
//! keeps the old type to read old values.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::value::{Value, ValueLike};

/// A value of a type that serde knows (feature `serde`).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use libtp::Serde;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Account {
///     owner: String,
///     cents: i64,
/// }
///
/// let env = libtp::Env::create(dir.path())?;
/// let accounts = env.table::<u32, Serde<Account>>("accounts")?;
/// let alice = Account { owner: "alice".into(), cents: 10 };
/// env.run(|txn| accounts.put(txn, 1, Serde(&alice)))?;
/// let found = accounts.get(&env.snapshot()?, 1)?.expect("the record was just put");
/// assert_eq!((found.0.owner.as_str(), found.0.cents), ("alice", 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

fn encode(value: &impl Serialize, bytes: &mut Vec<u8>) {
    let encoded = postcard::to_extend(value, std::mem::take(bytes));
    *bytes = encoded.expect("memory takes any bytes, and a type that serializes itself does so without failing");
}

/// # Panics
/// If the type's own `Serialize` fails.
impl<T: Serialize> ValueLike<Serde<T>> for Serde<T> {
    fn encode_value(&self, bytes: &mut Vec<u8>) {
        encode(&self.0, bytes);
    }
}

impl<T: Serialize> ValueLike<Serde<T>> for Serde<&T> {
    fn encode_value(&self, bytes: &mut Vec<u8>) {
        encode(self.0, bytes);
    }
}

impl<T: Serialize + DeserializeOwned> Value for Serde<T> {
    fn decode_value(bytes: &[u8]) -> Option<Serde<T>> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Some(Serde(value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Job {
        Mail { to: String, copies: Vec<u16> },
        Nothing,
    }

    #[test]
    fn serde_values_are_decoded_alone_and_in_tuples() {
        for job in [Job::Mail { to: "ada".into(), copies: vec![1, 700] }, Job::Nothing] {
            let mut bytes = Vec::new();
            ValueLike::<Serde<Job>>::encode_value(&Serde(&job), &mut bytes);
            assert_eq!(Serde::<Job>::decode_value(&bytes), Some(Serde(job)));
        }
        let mut bytes = Vec::new();
        let pair = (Serde(Job::Nothing), 5_u8);
        ValueLike::<(Serde<Job>, u8)>::encode_value(&pair, &mut bytes);
        assert_eq!(<(Serde<Job>, u8)>::decode_value(&bytes), Some(pair));
        assert_eq!(Serde::<Job>::decode_value(&[1, 0]), None, "nothing may follow");
        assert_eq!(Serde::<Job>::decode_value(&[2]), None);
    }
}
