//! Tests of the crate: every region is mapped twice, at different addresses, and used through both mappings.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

use crate::{Access, Broken, Error, Identity, Offset, Region, RootSlot, Section, Slab, Undo, Word};

crate::shared! {
    /// Two words that change together.
    struct Pair { left: Word<u64>, right: Word<u32>, spare: Word<u32> } size 16
}

fn twice() -> (Region, Region) {
    let region = Region::anonymous(1 << 30).expect("memory file");
    let again = region.map_again().expect("second mapping");
    (region, again)
}

#[test]
fn two_mappings_show_the_same_words_at_different_addresses() {
    let (here, there) = twice();
    let pair = here.allocate::<Pair>(1).expect("room");
    here.at(pair).left.publish(7);
    assert_eq!(there.at(pair).left.load(), 7);
    assert_ne!(std::ptr::from_ref(here.at(pair)), std::ptr::from_ref(there.at(pair)));
    assert_eq!(there.offset_of(there.at(pair)), pair);
}

#[test]
fn a_region_grows_while_another_mapping_is_attached() {
    let (here, there) = twice();
    let far = here.allocate_bytes(8 << 20, 4096).expect("room").plus((8 << 20) - 16).cast::<Pair>();
    there.at(far).left.publish(3);
    assert_eq!(here.at(far).left.load(), 3);
    assert!(here.size() >= 8 << 20);
}

#[test]
fn a_closed_section_keeps_its_changes_and_a_rolled_back_section_leaves_none() {
    let (here, there) = twice();
    let pair = here.allocate::<Pair>(1).expect("room");
    let log = Undo::create(&here, 4096).expect("room");
    let undo = Undo::open(&here, log);
    let mut section = undo.section();
    here.at(pair).left.set(&mut section, 1);
    here.at(pair).right.set(&mut section, 2);
    section.close();
    let mut section = undo.section();
    here.at(pair).left.set(&mut section, 10);
    here.at(pair).left.set(&mut section, 11);
    here.at(pair).right.set(&mut section, 20);
    section.roll_back();
    assert_eq!((there.at(pair).left.get(), there.at(pair).right.get()), (1, 2));
}

/// Simulates a killed process: the section is forgotten, so the undo log stays as it is.
#[test]
fn a_survivor_rolls_back_the_open_section_of_a_dead_session_through_its_own_mapping() {
    let (dead, survivor) = twice();
    let pair = dead.allocate::<Pair>(1).expect("room");
    let log = Undo::create(&dead, 4096).expect("room");
    let undo = Undo::open(&dead, log);
    for stores in 0..4 {
        let mut section = undo.section();
        let steps: [&dyn Fn(&mut Section<'_>); 3] = [
            &|section| dead.at(pair).left.set(section, 5),
            &|section| dead.at(pair).right.set(section, 6),
            &|section| dead.at(pair).left.set(section, 7),
        ];
        steps.iter().take(stores).for_each(|step| step(&mut section));
        std::mem::forget(section);
        let repair = Undo::open(&survivor, log);
        assert_eq!(repair.roll_back(), stores);
        assert_eq!(repair.roll_back(), 0, "repair is idempotent");
        assert_eq!((survivor.at(pair).left.get(), survivor.at(pair).right.get()), (0, 0));
        undo.roll_back();
    }
}

#[test]
fn an_inner_section_keeps_its_changes_when_the_outer_section_is_rolled_back() {
    let (here, _there) = twice();
    let pair = here.allocate::<Pair>(2).expect("room");
    let log = Undo::create(&here, 4096).expect("room");
    let undo = Undo::open(&here, log);
    let (outer_pair, inner_pair) = (&here.slice(pair, 2)[0], &here.slice(pair, 2)[1]);
    let mut outer = undo.section();
    outer_pair.left.set(&mut outer, 1);
    let mut inner = undo.section();
    inner_pair.left.set(&mut inner, 2);
    inner.close();
    outer_pair.left.set(&mut outer, 3);
    outer.roll_back();
    assert_eq!((outer_pair.left.get(), inner_pair.left.get()), (0, 2));
    assert!(!undo.is_open());
}

#[test]
fn a_section_dropped_in_a_panic_undoes_nothing_and_marks_its_session() {
    let (here, _there) = twice();
    let pair = here.allocate::<Pair>(1).expect("room");
    let log = Undo::create(&here, 4096).expect("room");
    let undo = Undo::open(&here, log);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut section = undo.section();
        here.at(pair).left.set(&mut section, 9);
        panic!("planned");
    }));
    assert!(panicked.is_err());
    assert!(undo.is_broken());
    assert_eq!(here.at(pair).left.get(), 9, "the destructor frees nothing");
    assert_eq!(undo.roll_back(), 1);
    assert_eq!(here.at(pair).left.get(), 0);
}

#[test]
fn an_undo_log_grows_between_sections() {
    let (here, there) = twice();
    let log = Undo::create(&here, 64).expect("room");
    let mut undo = Undo::open(&here, log);
    undo.ensure(1 << 16).expect("room");
    assert!(undo.capacity() >= 1 << 16);
    assert_eq!(Undo::open(&there, log).capacity(), undo.capacity());
}

#[test]
fn slab_slots_keep_their_place_as_the_slab_grows() {
    let (here, there) = twice();
    let header = Slab::<Pair>::init(&here, 4).expect("room");
    let (mine, theirs) = (Slab::<Pair>::attach(&here, header), Slab::<Pair>::attach(&there, header));
    assert_eq!((mine.capacity(), mine.iter().count()), (0, 0));
    assert_eq!(mine.grow().expect("room"), 1..5);
    assert_eq!((mine.iter().count(), theirs.iter().count()), (4, 4));
    mine.at(4).left.publish(44);
    assert_eq!(theirs.grow().expect("room"), 5..13);
    theirs.at(12).left.publish(12);
    assert_eq!(mine.grow().expect("room"), 13..29);
    assert_eq!((theirs.at(4).left.get(), mine.at(12).left.get(), mine.capacity()), (44, 12, 28));
    let places: std::collections::HashSet<u64> = (1..=28).map(|index| mine.place(index).raw()).collect();
    assert_eq!(places.len(), 28);
    for slab in [&mine, &theirs] {
        let all: Vec<u64> = slab.iter().map(|pair| pair.left.get()).collect();
        let one_by_one: Vec<u64> = (1..=28).map(|index| slab.at(index).left.get()).collect();
        assert_eq!(all, one_by_one);
        assert_eq!((all[3], all[11]), (44, 12));
    }
}

#[test]
fn an_offset_out_of_bounds_or_misaligned_is_refused() {
    let (here, _there) = twice();
    let beyond = Offset::<Pair>::from_raw(here.size()).expect("non-zero");
    assert!(here.try_at(beyond).is_none());
    assert!(here.try_at(Offset::<Pair>::from_raw(4097).expect("non-zero")).is_none());
    assert!(here.try_at(Offset::<Pair>::from_raw(u64::MAX).expect("non-zero")).is_none());
}

#[test]
fn a_thread_that_has_not_mapped_the_growth_of_a_broken_region_unwinds_with_broken() {
    let (here, there) = twice();
    there.mark_broken();
    here.give_up_growth();
    let far = there.allocate_bytes(8 << 20, 4096).expect("room").plus((8 << 20) - 16).cast::<Pair>();
    let looks: [&dyn Fn(); 3] =
        [&|| assert_eq!(here.at(far).left.load(), 0), &|| drop(here.hold_slice(far, 1)), &|| {
            here.copy_in(far.cast(), &[7; 8])
        }];
    for look in looks {
        let left = catch_unwind(AssertUnwindSafe(look)).expect_err("its address space was given back");
        assert!(left.is::<Broken>());
    }
    assert_eq!(there.at(far).left.load(), 0);
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("libtp-rio-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_region_of_another_environment_build_or_file_is_refused() {
    let path = scratch("identity");
    let identity = Identity {
        layout: 1,
        log_layout: 8,
        environment: [2, 3],
        incarnation: 4,
        control_inode: 5,
        control_birth: 6,
        control_device: 7,
    };
    let region = Region::create(&path, &identity, 1 << 20, &Access::own()).expect("created");
    assert!(
        matches!(Region::attach(&path, &identity, 1 << 20, &Access::own()), Err(Error::Unusable { .. })),
        "the region is not ready yet"
    );
    region.set_ready();
    region.set_root(RootSlot::Spare, region.allocate::<Pair>(1).expect("room"));
    let attached = Region::attach(&path, &identity, 1 << 20, &Access::own()).expect("its own region");
    assert!(attached.root::<Pair>(RootSlot::Spare).is_some());
    for wrong in [
        Identity { layout: 9, ..identity },
        Identity { environment: [2, 9], ..identity },
        Identity { incarnation: 9, ..identity },
        Identity { control_inode: 9, ..identity },
        Identity { control_birth: 9, ..identity },
    ] {
        assert!(matches!(Region::attach(&path, &wrong, 1 << 20, &Access::own()), Err(Error::Unusable { .. })));
    }
    let copy = scratch("copy");
    std::fs::copy(&path, &copy).expect("copied");
    assert!(
        matches!(Region::attach(&copy, &identity, 1 << 20, &Access::own()), Err(Error::Unusable { .. })),
        "a copy has another inode"
    );
    std::fs::remove_file(path).expect("removed");
    std::fs::remove_file(copy).expect("removed");
}

#[test]
fn the_address_range_running_out_is_an_error() {
    let region = Region::anonymous(1 << 20).expect("memory file");
    assert!(matches!(region.allocate_bytes(2 << 20, 8), Err(Error::Reserve { .. })));
    assert!(region.allocate_bytes(1 << 19, 8).is_ok(), "the failed call changed nothing");
}

#[test]
fn a_region_grows_no_further_than_every_process_has_mapped_it() {
    let path = scratch("reserve");
    let identity = Identity::default();
    let small = Region::create(&path, &identity, 1 << 20, &Access::own()).expect("created");
    small.set_ready();
    let large = Region::attach(&path, &identity, 1 << 30, &Access::own()).expect("the handle maps the whole region");
    assert!(
        matches!(large.allocate_bytes(2 << 20, 8), Err(Error::Reserve { reserve: 0x10_0000, .. })),
        "the process with the small mapping would not see the bytes"
    );
    let last = large.allocate_bytes(1 << 19, 8).expect("both handles have mapped that many bytes");
    assert!(small.reaches(last.raw() + (1 << 19)));
    assert!(
        matches!(Region::attach(&path, &identity, 1 << 19, &Access::own()), Err(Error::Unusable { .. })),
        "the region may be larger than this handle could map"
    );
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn bytes_copied_in_come_out_through_the_other_mapping() {
    let (here, there) = twice();
    let at = here.allocate_bytes(4096, 64).expect("room");
    let bytes: Vec<u8> = (0..=255).collect();
    here.copy_in(at.plus(8), &bytes);
    let mut back = vec![0; 256];
    there.copy_out(at.plus(8), &mut back);
    assert_eq!(back, bytes);
}

#[test]
fn an_undo_log_of_whole_words_with_an_odd_image_is_refused() {
    let (here, _) = twice();
    let place = here.allocate::<Pair>(4).expect("room").raw();
    let odd = |undo: &Undo| {
        assert_eq!(undo.audit(), Ok(()), "empty");
        undo.save_bytes(place + 3, &[1, 2, 3]);
        undo.audit()
    };
    let session = Undo::open(&here, Undo::create(&here, 4096).expect("room"));
    assert!(odd(&session).is_err_and(|what| what.contains("3 bytes")));
    let segment = Undo::open(&here, Undo::create(&here, 4096).expect("room"));
    segment.set_form();
    assert_eq!(odd(&segment), Ok(()));
    segment.save_bytes(1 << 39, &[1]);
    assert!(segment.audit().is_err(), "a place outside");
}
