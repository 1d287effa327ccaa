//! The size of a tree whose records were inserted in ascending, descending or random order (LIBTP 5.2.2 and footnote
//! 5).

use std::fs;
use std::path::Path;

use serde_json::json;

use super::bank::number;
use super::figure::{Axis, Figure, Place};
use super::rounds::{Case, Sample};
use super::Paper;
use crate::catalogue::rows;
use crate::error::{Error, Result};
use crate::rows::{bytes_in, shuffled, sorted, Contender, Open, Pair};

const ID: &str = "libtp-order";
/// Bytes of a record, key and value.
const RECORD_BYTES: f64 = size_of::<Pair>() as f64;

/// The figure's groups.
const ORDERS: [&str; 3] = ["ascending", "descending", "at random"];

/// Measures the bytes of the files per byte of the records.
pub(super) fn sizes(paper: &mut Paper<'_>) -> Result<()> {
    let records = paper.pace.inserted;
    let ascending = sorted(records);
    let descending: Vec<Pair> = ascending.iter().rev().copied().collect();
    let at_random = shuffled(ascending.clone());
    let peers = &paper.settings.peers;
    let is_wanted = |one: &Contender| one.peer.is_none_or(|peer| peers.iter().any(|name| name == peer.name()));
    let engines: Vec<_> = rows().into_iter().filter(is_wanted).collect();
    let mut cases = Vec::new();
    for (place, pairs) in ORDERS.into_iter().zip([&ascending, &descending, &at_random]) {
        for Contender { name, open, .. } in &engines {
            let directory = paper.settings.disk.join(format!("order-{}-{name}", place.replace(' ', "-")));
            cases.push(Case::new(name, Place::Name(place.to_owned()), move || filled(*open, &directory, pairs)));
        }
    }
    // One round, because the size is the same each time.
    let series = paper.measure(ID, &mut cases, 1)?;
    drop(cases);
    paper.figures.push(Figure {
        id: ID.into(),
        title: "The size of a database, by the order in which its records were inserted".into(),
        paper: "LIBTP 5.2.2 and footnote 5: an index that was filled in order was much larger than an index that was filled in another order, \
                because each full page was split into two half-full pages. The paper announces a remedy. The text has no values."
            .into(),
        here: format!(
            "{} records of {} bytes are inserted in {} orders, a thousand records in a transaction. Then everything is written to the disk. The \
             value is the bytes of all files except logs, divided by the bytes of the records. A file of libtp grows by its own length, at most by \
             4 MiB, and the free bytes at its end are included. `dense` is libtp with the setting `dense`: a full page moves records to a neighbour \
             before it is split.",
            super::spelled(f64::from(records)),
            super::spelled(RECORD_BYTES),
            ORDERS.len(),
        ),
        x: Axis::linear("order"),
        y: Axis::linear("bytes of the files per byte of the records"),
        series,
        notes: Vec::new(),
    });
    Ok(())
}

/// Fills a database, measures its size, and removes it.
fn filled(open: Open, directory: &Path, pairs: &[Pair]) -> Result<Sample> {
    let done = measured(open, directory, pairs);
    // A failure is reported when the run removes all its files.
    let _ = fs::remove_dir_all(directory);
    done
}

fn measured(open: Open, directory: &Path, pairs: &[Pair]) -> Result<Sample> {
    fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let rows = open(directory)?;
    rows.insert(pairs)?;
    rows.settle()?;
    let (read, wanted) = (rows.scan()?, size_of_val(pairs));
    let audit = match u64::try_from(wanted).is_ok_and(|wanted| wanted == read) {
        true => "ok".to_owned(),
        false => format!("{read} bytes were read, and {wanted} were stored"),
    };
    let bytes = bytes_in(directory)?;
    Ok(Sample {
        value: number(bytes) / (RECORD_BYTES * pairs.len() as f64),
        audit,
        raw: json!({ "records": pairs.len(), "bytes": bytes }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;

    /// An engine that pretends to have lost a byte.
    struct Lossy;

    impl Rows for Lossy {
        fn load_sorted(&self, _: &[Pair]) -> Result<()> {
            Ok(())
        }

        fn insert(&self, _: &[Pair]) -> Result<()> {
            Ok(())
        }

        fn settle(&self) -> Result<()> {
            Ok(())
        }

        fn get(&self, _: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
            Ok(0)
        }

        fn scan(&self) -> Result<u64> {
            Ok(199)
        }
    }

    #[test]
    fn an_engine_that_loses_values_fails_the_audit_and_its_files_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("order");
        let lossy: Open = |_: &Path| Ok(Box::new(Lossy));
        let sample = filled(lossy, &directory, &sorted(2)).unwrap();
        assert_eq!(sample.audit, "199 bytes were read, and 200 were stored");
        let whole = filled(rows()[0].open, &directory, &sorted(2)).unwrap();
        assert!(whole.audit == "ok" && whole.value > 1.0, "{whole:?}");
        assert!(!directory.exists());
    }
}
