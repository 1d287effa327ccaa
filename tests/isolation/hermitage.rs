//! The cases of Kleppmann's hermitage, under its names (after Adya). Each case runs with reads of a key and with reads
//! of a range, and with locks on records and on pages.
//!
//! A case is a schedule. Without isolation it must show its anomaly. In an environment its outcome must equal the
//! outcome of a serial order of its committed transactions, also if the transactions that only read use snapshots.
//! There are two differences from hermitage. In hermitage's G0 the second transaction writes both keys after the first
//! transaction, so the outcome equals the outcome of a serial order. Here the second transaction writes one key before
//! the first transaction does. Hermitage's predicate filters by a value (`value % 3 = 0`); the predicate here is a
//! range of keys.

use libtp::Granularity;

use crate::serial::{interleaved, is_serial, played, readers, Readers, Step};
use crate::session::Do;

/// Two accounts at the beginning.
const XY: &[(&str, &str)] = &[("x", "10"), ("y", "20")];

/// A range that contains the accounts.
const XYZ: Do = Do::Scan("x", "z");
/// A range after the accounts. It is empty at first.
const BEHIND: Do = Do::Scan("z", "zz");

fn put(key: &'static str, value: &'static str) -> Do {
    Do::Put(key, value)
}

fn get(key: &'static str) -> Do {
    Do::Get(key)
}

fn of<const N: usize>(session: usize, steps: [Do; N]) -> Vec<Step> {
    steps.into_iter().map(|step| (session - 1, step)).collect()
}

/// Write cycles: both transactions write both keys, and each writes another key first.
fn g0() -> Vec<Step> {
    let (one, two) = (of(1, [put("x", "11")]), of(2, [put("x", "12"), put("y", "22")]));
    [one, two, of(1, [put("y", "21"), Do::Commit]), of(2, [Do::Commit])].concat()
}

/// Write cycles, where both transactions scan the range before they commit.
fn g0_predicate() -> Vec<Step> {
    let (one, two) = (of(1, [put("x", "11")]), of(2, [put("x", "12"), Do::Delete("y")]));
    [one, two, of(1, [put("y", "21"), XYZ, Do::Commit]), of(2, [XYZ, Do::Commit])].concat()
}

/// Aborted reads.
fn g1a() -> Vec<Step> {
    [of(1, [put("x", "101")]), of(2, [get("x")]), of(1, [Do::Abort]), of(2, [get("x"), Do::Commit])].concat()
}

fn g1a_predicate() -> Vec<Step> {
    let (write, read) = (of(1, [put("z", "30"), Do::Delete("x")]), of(2, [Do::Scan("x", "zz")]));
    [write, read.clone(), of(1, [Do::Abort]), read, of(2, [Do::Commit])].concat()
}

/// Intermediate reads.
fn g1b() -> Vec<Step> {
    [of(1, [put("x", "101")]), of(2, [get("x")]), of(1, [put("x", "11"), Do::Commit]), of(2, [Do::Commit])].concat()
}

fn g1b_predicate() -> Vec<Step> {
    let (first, second) = (of(1, [put("z", "30")]), of(1, [Do::Delete("z"), Do::Commit]));
    [first, of(2, [BEHIND]), second, of(2, [Do::Commit])].concat()
}

/// Circular information flow.
fn g1c() -> Vec<Step> {
    let (write, read) = ([of(1, [put("x", "11")]), of(2, [put("y", "22")])], [of(1, [get("y")]), of(2, [get("x")])]);
    [write.concat(), read.concat(), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

fn g1c_predicate() -> Vec<Step> {
    let write = [of(1, [put("x", "11")]), of(2, [put("y", "22")])].concat();
    [write, of(1, [XYZ]), of(2, [XYZ]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

/// Observed transaction vanishes.
fn otv() -> Vec<Step> {
    let writes = [of(1, [put("x", "11"), put("y", "19")]), of(2, [put("x", "12")])].concat();
    let reads = [of(1, [Do::Commit]), of(3, [get("x"), get("y")]), of(2, [put("y", "18")])].concat();
    [writes, reads, of(2, [Do::Commit]), of(3, [Do::Commit])].concat()
}

fn otv_predicate() -> Vec<Step> {
    let writes = [of(1, [put("x", "11"), put("y", "19")]), of(2, [put("x", "12")])].concat();
    let reads = [of(1, [Do::Commit]), of(3, [XYZ]), of(2, [put("y", "18")]), of(3, [XYZ])].concat();
    [writes, reads, of(2, [Do::Commit]), of(3, [Do::Commit])].concat()
}

/// Predicate-many-preceders, for a predicate that is read.
fn pmp() -> Vec<Step> {
    [of(1, [BEHIND]), of(2, [put("z", "30"), Do::Commit]), of(1, [BEHIND, Do::Commit])].concat()
}

/// Predicate-many-preceders, for a predicate that selects the records to delete.
fn pmp_predicate() -> Vec<Step> {
    let one = of(1, [put("x", "20"), put("y", "30")]);
    [one, of(2, [XYZ, Do::Delete("y")]), of(1, [get("y"), Do::Commit]), of(2, [XYZ, Do::Commit])].concat()
}

/// Lost update.
fn p4() -> Vec<Step> {
    let reads = [of(1, [get("x")]), of(2, [get("x")])].concat();
    [reads, of(1, [put("x", "11")]), of(2, [put("x", "12")]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

fn p4_predicate() -> Vec<Step> {
    let reads = [of(1, [XYZ]), of(2, [XYZ])].concat();
    [reads, of(1, [put("x", "11")]), of(2, [put("x", "12")]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

/// Read skew.
fn g_single() -> Vec<Step> {
    let two = of(2, [get("x"), get("y"), put("x", "12"), put("y", "18"), Do::Commit]);
    [of(1, [get("x")]), two, of(1, [get("y"), Do::Commit])].concat()
}

fn g_single_predicate() -> Vec<Step> {
    [of(1, [XYZ]), of(2, [put("x", "12"), put("y", "18"), Do::Commit]), of(1, [XYZ, Do::Commit])].concat()
}

/// Read skew that ends in a write by a predicate.
fn g_single_write_predicate() -> Vec<Step> {
    let two = of(2, [XYZ, put("x", "12"), put("y", "18"), Do::Commit]);
    [of(1, [get("x")]), two, of(1, [XYZ, Do::Delete("y"), Do::Commit])].concat()
}

/// Write skew over two keys.
fn g2_item() -> Vec<Step> {
    let reads = [of(1, [get("x"), get("y")]), of(2, [get("x"), get("y")])].concat();
    [reads, of(1, [put("x", "11")]), of(2, [put("y", "21")]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

fn g2_item_predicate() -> Vec<Step> {
    let reads = [of(1, [XYZ]), of(2, [XYZ])].concat();
    [reads, of(1, [put("x", "11")]), of(2, [put("y", "21")]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

/// Anti-dependency cycles over an empty range.
fn g2() -> Vec<Step> {
    let reads = [of(1, [BEHIND]), of(2, [BEHIND])].concat();
    [reads, of(1, [put("z3", "30")]), of(2, [put("z4", "42")]), of(1, [Do::Commit]), of(2, [Do::Commit])].concat()
}

/// Two anti-dependencies among three transactions, of which one only reads (Fekete, O'Neil and O'Neil).
fn g2_two_edges() -> Vec<Step> {
    let start = [of(1, [XYZ]), of(2, [get("x"), put("y", "25"), Do::Commit])].concat();
    [start, of(3, [XYZ, Do::Commit]), of(1, [put("x", "0"), Do::Commit])].concat()
}

fn check(granularity: Granularity, how: Readers, schedule: &[Step]) {
    assert!(
        how == Readers::Lock || !readers(schedule).is_empty(),
        "no transaction only reads, so the test shows nothing"
    );
    let naive = interleaved(XY, schedule);
    assert!(!is_serial(XY, &naive), "without isolation the outcome is serial, so the test shows nothing: {naive:?}");
    let outcome = played(granularity, how, XY, schedule);
    assert!(!outcome.committed().is_empty(), "no transaction could commit: {outcome:?}");
    assert!(is_serial(XY, &outcome), "no serial order has this outcome: {outcome:?}");
}

/// Makes a test of each case, under its name.
macro_rules! cases {
    ($module:ident: $granularity:ident, $how:ident: $($name:ident)*) => {
        mod $module {
            use libtp::Granularity;

            use super::Readers;

            $(#[test] fn $name() { super::check(Granularity::$granularity, Readers::$how, &super::$name()); })*
        }
    };
}

cases! {
    record: Record, Lock:
    g0 g0_predicate g1a g1a_predicate g1b g1b_predicate g1c g1c_predicate otv otv_predicate pmp pmp_predicate
    p4 p4_predicate g_single g_single_predicate g_single_write_predicate g2_item g2_item_predicate g2 g2_two_edges
}

cases! {
    page: Page, Lock:
    g0 g0_predicate g1a g1a_predicate g1b g1b_predicate g1c g1c_predicate otv otv_predicate pmp pmp_predicate
    p4 p4_predicate g_single g_single_predicate g_single_write_predicate g2_item g2_item_predicate g2 g2_two_edges
}

// The cases in which a transaction only reads. Here it reads a snapshot.
cases! {
    snapshot: Record, Snapshot:
    g1a g1a_predicate g1b g1b_predicate otv otv_predicate pmp g_single g_single_predicate g2_two_edges
}
