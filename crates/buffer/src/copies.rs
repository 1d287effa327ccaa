//! Copies of pages that a session keeps in its own memory: those that everybody passes and hardly anybody changes.
//!
//! A latch is two stores to a word that all processes share, and on the pages at the top of a tree all of them meet. Who has a
//! copy needs no latch. Nobody renews a copy when the page changes: it shows the page as it was at some time of the caller's
//! counting, and what it leads to is for the caller to check (PROTOCOLS T5).
//!
//! Private memory only: nothing here is shared, and nothing is to be repaired.

use std::cell::RefCell;

use crate::PageId;

/// A page is copied when it has been latched so often at one time: copying takes as long as some ten latches.
const VISITS: u32 = 16;
/// Where there is no room for one more, all make room for a page that has been latched so often.
const VISITS_FULL: u32 = 256;
/// A copy that has led astray so often is given up.
const ASTRAY_MAX: u32 = 4;
/// A power of two.
const PLACES: usize = 256;
/// Bytes of all copies of a session.
const BYTES_MAX: usize = 1 << 20;

/// The copies of one session.
#[derive(Default)]
pub struct PageCopies(RefCell<Kept>);

#[derive(Default)]
struct Kept {
    /// By the page's number; none before the first page was seen.
    places: Vec<Place>,
    bytes: usize,
}

/// What is known of a page. There is a copy if it has bytes.
#[derive(Clone, Default)]
struct Place {
    id: u64,
    time: u64,
    visits: u32,
    astray: u32,
    copy: Vec<u8>,
}

impl PageCopies {
    /// Passes the copy of a page as of `time` to `read`, if there is one.
    #[inline]
    pub fn look<R>(&self, id: PageId, time: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let kept = self.0.borrow();
        let place = kept.places.get(place_of(id))?;
        let is_it = place.id == id.raw() && place.time == time && !place.copy.is_empty();
        is_it.then(|| read(&place.copy))
    }

    /// Says that a page was latched for want of a copy, and what it holds. `time` was looked at before it was latched.
    pub fn seen(&self, id: PageId, time: u64, page: &[u8]) {
        self.0.borrow_mut().seen(id, time, page);
    }

    /// Says that what the copy of a page led to was not what was looked for.
    #[cold]
    pub fn led_astray(&self, id: PageId) {
        let kept = &mut *self.0.borrow_mut();
        let Some(place) = kept.places.get_mut(place_of(id)).filter(|place| place.id == id.raw()) else { return };
        place.astray += 1;
        if place.astray >= ASTRAY_MAX {
            kept.bytes -= place.copy.len();
            *place = Place::default();
        }
    }
}

impl Kept {
    fn seen(&mut self, id: PageId, time: u64, page: &[u8]) {
        if self.places.is_empty() {
            self.places.resize(PLACES, Place::default());
        }
        let place = &mut self.places[place_of(id)];
        if place.id != id.raw() || place.time != time {
            // Another page's copy of the same time is as good.
            if place.time != time || place.copy.is_empty() {
                self.bytes -= place.copy.len();
                *place = Place { id: id.raw(), time, visits: 1, ..Place::default() };
            }
            return;
        }
        place.visits += 1;
        if place.visits < VISITS || !place.copy.is_empty() {
            return;
        }
        if self.bytes + page.len() > BYTES_MAX && !self.make_room(id, time, page.len()) {
            return;
        }
        self.places[place_of(id)].copy = page.to_vec();
        self.bytes += page.len();
    }

    /// Gives up copies that are as of another time; if that is not enough, all, for a page that was latched often.
    #[cold]
    fn make_room(&mut self, id: PageId, time: u64, bytes: usize) -> bool {
        let gives_up_all = self.places[place_of(id)].visits >= VISITS_FULL;
        for place in self.places.iter_mut().filter(|place| place.time != time || gives_up_all) {
            self.bytes -= place.copy.len();
            *place = Place { id: place.id, time: place.time, ..Place::default() };
        }
        self.bytes + bytes <= BYTES_MAX
    }
}

/// Where a page's copy is, if there is one.
#[inline]
fn place_of(id: PageId) -> usize {
    let (file, page) = (id.file().raw() as usize, id.page().raw() as usize);
    (page ^ file.wrapping_mul(89)) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, PageNo};

    fn id(page: u32) -> PageId {
        PageId::new(FileId::new(1), PageNo::new(page))
    }

    fn see(copies: &PageCopies, page: u32, time: u64, often: u32) {
        (0..often).for_each(|_| copies.seen(id(page), time, &[7; 8192]));
    }

    fn has(copies: &PageCopies, page: u32, time: u64) -> bool {
        copies.look(id(page), time, |copy| copy == [7; 8192]).unwrap_or(false)
    }

    #[test]
    fn a_page_that_is_passed_often_is_copied_as_of_one_time() {
        let copies = PageCopies::default();
        see(&copies, 3, 1, VISITS - 1);
        assert!(!has(&copies, 3, 1));
        see(&copies, 3, 1, 1);
        assert!(has(&copies, 3, 1) && !has(&copies, 3, 2) && !has(&copies, 4, 1));
        see(&copies, 3, 2, 1);
        assert!(!has(&copies, 3, 1) && !has(&copies, 3, 2));
        see(&copies, 3, 2, VISITS);
        assert!(has(&copies, 3, 2));
    }

    #[test]
    fn a_copy_that_leads_astray_is_given_up() {
        let copies = PageCopies::default();
        see(&copies, 3, 1, VISITS);
        (1..ASTRAY_MAX).for_each(|_| copies.led_astray(id(3)));
        assert!(has(&copies, 3, 1));
        copies.led_astray(id(3));
        assert!(!has(&copies, 3, 1));
        see(&copies, 3, 1, VISITS);
        assert!(has(&copies, 3, 1));
    }

    #[test]
    fn copies_have_so_much_room_and_those_of_before_make_room_first() {
        let copies = PageCopies::default();
        (0..128).for_each(|page| see(&copies, page, 1, VISITS));
        assert!((0..128).all(|page| has(&copies, page, 1)));
        see(&copies, 200, 1, VISITS_FULL - 1);
        assert!(!has(&copies, 200, 1) && has(&copies, 0, 1), "there is no room");
        see(&copies, 200, 1, 1);
        assert!(has(&copies, 200, 1) && !has(&copies, 0, 1), "it is passed so often");
        assert_eq!(copies.0.borrow().bytes, 8192);
        (0..127).for_each(|page| see(&copies, page, 1, VISITS + 1));
        see(&copies, 201, 2, VISITS);
        assert!(has(&copies, 201, 2), "those of before make room");
        assert_eq!(copies.0.borrow().bytes, 8192);
    }
}
