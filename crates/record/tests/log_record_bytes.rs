//! The bytes of every log record's body, which never change: `formats/log_records.txt`.
//!
//! A struct with moved fields could still read its own output, but not an older log. So the test compares one sample of
//! each struct with the file; each field has a different number, in hexadecimal. New fields are added at the end of a
//! body or in a new type. A line in the file never changes.

#![allow(clippy::unwrap_used)] // in the functions that tests share

use std::collections::BTreeMap;

use libtp_log::{Lsn, RecordBuffer};
use libtp_record::btree::log_records as btree;
use libtp_record::changed::Changed;
use libtp_record::hash::log_records as hash;
use libtp_record::page::log_records as page;
use libtp_record::page::overflow::ChainRef;
use libtp_record::page::record_lsn::RecordFlags;
use libtp_record::recno::log_records as recno;
use zerocopy::{FromBytes, IntoBytes};

/// Returns the text of a struct whose bytes are 1, 2, 3 and so on. So every field has a different number.
fn sample<T: FromBytes + std::fmt::Debug>() -> String {
    let bytes: Vec<u8> = (1..).take(size_of::<T>()).collect();
    let value = T::read_from_bytes(&bytes).unwrap_or_else(|_| unreachable!("the struct has that many bytes"));
    // Numbers in hexadecimal show their bytes.
    format!("{value:#x?}")
        .replace("\n", " ")
        .replace("    ", "")
        .replace(", }", " }")
        .replace("( ", "(")
        .replace(", )", ")")
}

fn samples() -> BTreeMap<&'static str, String> {
    let mut samples = BTreeMap::new();
    macro_rules! sample {
        ($($module:ident::$name:ident),* $(,)?) => {
            $(samples.insert(concat!(stringify!($module), "::", stringify!($name)), sample::<$module::$name>());)*
        };
    }
    sample!(
        btree::Restore,
        btree::Split,
        btree::RootSplit,
        btree::Post,
        btree::Reclaim,
        btree::ReclaimEntry,
        btree::Unlink,
        btree::FreeUnlinked,
        btree::Absorb,
        btree::DropChain,
        btree::Load,
        btree::LoadRoot,
        btree::Merge,
        recno::Restore,
        recno::StartPage,
        page::Format,
        page::WritePiece,
        page::FreePage,
        hash::Create,
        hash::Split,
        hash::Move,
        hash::Finish,
        hash::Extend,
        hash::Shrink,
    );
    samples
}

#[test]
fn the_fields_of_every_body_keep_their_places() {
    let golden = include_str!("formats/log_records.txt");
    let golden: BTreeMap<&str, &str> = golden.lines().filter_map(|line| line.split_once(" = ")).collect();
    for (name, now) in samples() {
        assert_eq!(golden.get(name), Some(&now.as_str()), "{name}");
    }
    assert_eq!(golden.len(), samples().len());
}

#[test]
fn the_codes_of_record_types_never_change() {
    let codes: Vec<(u16, &str)> = libtp_record::record_types().iter().map(|it| (it.code, it.name)).collect();
    let golden = [
        (32, "btree insert"),
        (33, "btree update"),
        (34, "btree delete"),
        (35, "btree restore"),
        (36, "btree split"),
        (37, "btree root split"),
        (38, "btree post"),
        (39, "btree reclaim"),
        (40, "btree unlink"),
        (41, "btree free unlinked"),
        (42, "btree drop chain"),
        (43, "btree absorb"),
        (44, "btree load"),
        (45, "btree load root"),
        (46, "btree merge"),
        (64, "recno put"),
        (65, "recno update"),
        (66, "recno delete"),
        (67, "recno restore"),
        (68, "recno start page"),
        (80, "file format"),
        (81, "value write piece"),
        (82, "page free"),
        (83, "index list"),
        (96, "hash insert"),
        (97, "hash update"),
        (98, "hash delete"),
        (99, "hash restore"),
        (100, "hash create"),
        (101, "hash split"),
        (102, "hash move"),
        (103, "hash finish"),
        (104, "hash extend"),
        (105, "hash shrink"),
        (106, "hash reclaim"),
        (107, "hash drop chain"),
        (128, "page change"),
        (129, "page restore"),
    ];
    assert_eq!(codes, golden);
}

#[test]
fn a_reference_to_a_long_value_has_its_sixteen_bytes() {
    let chain = ChainRef { first: 0x0403_0201.into(), last: 0x0807_0605.into(), bytes: 0x100f_0e0d_0c0b_0a09.into() };
    assert_eq!(chain.as_bytes(), (1..=16).collect::<Vec<u8>>());
}

/// Checks that a change is written as these bytes, and that these bytes are read as the same change.
fn has_bytes(changed: &Changed<'_, '_>, bytes: &[u8]) {
    let mut record = RecordBuffer::default();
    changed.write(&mut record);
    assert_eq!(record.body(), bytes, "{changed:?}");
    assert_eq!(Changed::read(bytes).unwrap(), *changed);
}

#[test]
fn the_bytes_of_a_change_of_one_record_never_change() {
    let update = Changed {
        page: 1 << 32 | 0x04_0302,
        slot: 5,
        key: &[0x21, 0x22, 0x23],
        offset: 7,
        cut: &[0x31, 0x32],
        put: &[0x41, 0x42],
        flags_before: RecordFlags::NONE,
        flags_after: RecordFlags::NONE,
        lsn_before: Lsn::new(0x0c0b_0a09 * 8),
    };
    let parts = [0x21, 0x22, 0x23, 0x31, 0x32, 0x41, 0x42];
    has_bytes(&update, &[&[0x14, 1, 2, 3, 4, 5, 3, 7, 9, 10, 11, 12], &parts[..]].concat());
    let longer = Changed { put: &[0x41], flags_after: RecordFlags::OVERFLOW, ..update };
    has_bytes(&longer, &[&[0x3c, 1, 2, 3, 4, 5, 3, 7, 9, 10, 11, 12, 2, 0, 0x20], &parts[..6]].concat());
    let deletion = Changed { put: &[], flags_after: RecordFlags::GHOST, ..update };
    has_bytes(&deletion, &[&[0x2c, 1, 2, 3, 4, 5, 3, 7, 9, 10, 11, 12, 0x10], &parts[..5]].concat());
    let insertion = Changed { offset: 0, cut: &[], lsn_before: Lsn::NONE, ..update };
    has_bytes(&insertion, &[0, 1, 2, 3, 4, 5, 3, 0, 0x21, 0x22, 0x23, 0x41, 0x42]);
    let by_number = Changed { key: &[], ..insertion };
    has_bytes(&by_number, &[0x40, 1, 2, 3, 4, 5, 0x41, 0x42]);
    let wide = Changed { page: 0x0d0c_0b01 << 32 | 0x04_0302, slot: 0x605, ..update };
    let head = [0x94, 1, 11, 12, 13, 2, 3, 4, 0, 5, 6, 3, 0, 7, 0, 9, 10, 11, 12];
    has_bytes(&wide, &[&head, &parts[..]].concat());
    let wide_by_number = Changed { page: 0x0d0c_0b01 << 32 | 0x04_0302, ..by_number };
    has_bytes(&wide_by_number, &[0xc0, 1, 11, 12, 13, 2, 3, 4, 0, 5, 0, 0x41, 0x42]);
}
