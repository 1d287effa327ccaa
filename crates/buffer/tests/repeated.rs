//! Tests of stores without before-images: they are allowed only with a noted record, and only in a change that also
//! stores the page's LSN (PROTOCOLS D3, D4, D15).

#![allow(clippy::unwrap_used)] // a test's way to say that this must work

mod world;

use std::sync::Arc;

use libtp_buffer::{ExclusivePage, PageMut, Repeated};
use libtp_log::{Lsn, TxnId};
use libtp_process::Session;
use libtp_sim::SimDisk;
use rio::Store;
use world::{frames, page_id, World, LEAF};

/// The offset of each store of a change, and whether the store has a before-image.
type Stores = &'static [(usize, bool)];

fn store(page: &mut PageMut<'_, '_>, (at, has_image): (usize, bool), value: u64) {
    let new = value.to_le_bytes();
    if has_image {
        page.range(at..at + 8).copy_from_slice(&new);
    } else {
        page.again([Store::Bytes(at, &new)]);
    }
}

/// Makes a world with two pages, and a session whose death is simulated.
fn world() -> (World, Session) {
    let world = World::new(Arc::new(SimDisk::new(1).process_view()), &frames(64));
    let session = world.join();
    (1..=2).for_each(|number| _ = world.set(&session, page_id(number), 7).unwrap());
    (world, session)
}

/// Latches both pages, and appends and notes a record.
fn with_record<'w>(world: &'w World, session: &'w Session) -> (Lsn, [ExclusivePage<'w>; 2]) {
    session.clear_append();
    world.log.reserve(session, 256).unwrap();
    let pages = [1, 2].map(|number| world.buffers.exclusive(session, page_id(number), LEAF).unwrap());
    (world.log.log(session, 1024, TxnId::NONE, Lsn::NONE, &[b"a change"]), pages)
}

#[test]
fn only_a_noted_record_permits_a_store_without_a_before_image() {
    let (world, session) = world();
    let (lsn, [mut page, _other]) = with_record(&world, &session);
    assert!(Repeated::noted(&session, Lsn::FIRST).is_none(), "the session has noted another record");
    let proof = Repeated::noted(&session, lsn).unwrap();
    let before = page.to_vec();
    let mut section = session.section();
    let mut bytes = page.page_mut(&mut section);
    store(&mut bytes, (64, false), 1);
    bytes.set_lsn(lsn);
    section.roll_back();
    assert!(*page == *before, "without the proof every store has a before-image");
    let mut section = session.section();
    store(&mut page.page_mut_repeated(&mut section, proof), (64, false), 1);
    section.roll_back();
    assert_eq!((&page[64..72], &page[..64]), (&1_u64.to_le_bytes()[..], &before[..64]));
    session.clear_append();
    assert!(Repeated::noted(&session, lsn).is_none(), "the note is cleared");
}

/// Makes the change on each page that does not have it yet, with at most `limit` stores; the stores of page LSNs count,
/// too. If more stores are needed, rolls these stores back and returns false.
fn change(
    session: &Session,
    pages: &mut [ExclusivePage<'_>],
    (lsn, proof): (Lsn, Option<Repeated>),
    wanted: &[Stores],
    limit: usize,
) -> bool {
    let mut left = limit;
    let mut section = session.section();
    for (page, stores) in pages.iter_mut().zip(wanted).filter(|(page, _)| page.lsn() < lsn).collect::<Vec<_>>() {
        let mut bytes = match proof {
            Some(proof) => page.page_mut_repeated(&mut section, proof),
            None => page.page_mut(&mut section),
        };
        for place in stores.iter().map(Some).chain([None]) {
            if left == 0 {
                // The session dies. A survivor rolls the section back (PROTOCOLS D4).
                section.roll_back();
                return false;
            }
            left -= 1;
            match place {
                Some(&place) => store(&mut bytes, place, lsn.raw() ^ place.0 as u64),
                None => bytes.set_lsn(lsn),
            }
        }
    }
    section.close();
    true
}

#[test]
fn two_pages_of_one_record_are_whole_if_the_session_and_its_repairer_die_between_any_stores() {
    const PLAIN: Stores = &[(64, false), (72, false), (160, false)];
    const SAVED: Stores = &[(64, true), (200, true), (72, true)];
    const MIXED: Stores = &[(64, false), (72, true), (160, false)];
    const MIXED_2: Stores = &[(200, true), (64, false)];
    let (world, session) = world();
    let kinds = [PLAIN, SAVED, MIXED, MIXED_2];
    let wanted = kinds.into_iter().flat_map(|first| kinds.map(|second| [first, second]));
    let deaths = || (0..=8).flat_map(|first| (0..=8).map(move |second| (first, second)));
    for (wanted, (dies_at, repairer_dies_at)) in wanted.flat_map(|wanted| deaths().map(move |at| (wanted, at))) {
        let (lsn, mut pages) = with_record(&world, &session);
        let proof = Repeated::noted(&session, lsn);
        let expected = [made(&pages[0], wanted[0], lsn), made(&pages[1], wanted[1], lsn)];
        // The repairs have before-images for all stores.
        let is_whole = change(&session, &mut pages, (lsn, proof), &wanted, dies_at)
            || change(&session, &mut pages, (lsn, None), &wanted, repairer_dies_at)
            || change(&session, &mut pages, (lsn, None), &wanted, usize::MAX);
        assert!(is_whole);
        for (page, expected) in pages.iter().zip(&expected) {
            assert!(**page == **expected, "{wanted:?}, deaths after {dies_at} and {repairer_dies_at} stores");
        }
    }
    session.clear_append();
}

/// Returns the page with the whole change.
fn made(page: &[u8], stores: Stores, lsn: Lsn) -> Vec<u8> {
    let mut whole = page.to_vec();
    let mut bytes = PageMut::detached(&mut whole);
    stores.iter().for_each(|&place| store(&mut bytes, place, lsn.raw() ^ place.0 as u64));
    bytes.set_lsn(lsn);
    whole
}
