//! A session dies while it grows a slab: the header names the new chunk, but does not count it. The next session that
//! grows the slab puts another chunk in the place of this chunk. Every handle must find the slots in the other chunk.

use std::panic::{catch_unwind, AssertUnwindSafe};

use rio::{Region, Slab, Word};

#[test]
fn no_handle_remembers_a_chunk_that_is_not_counted() {
    let here = Region::anonymous(1 << 24).unwrap();
    let there = here.map_again().unwrap();
    let header = Slab::<Word<u64>>::init(&here, 4).unwrap();
    let (mine, theirs) = (Slab::<Word<u64>>::attach(&here, header), Slab::<Word<u64>>::attach(&there, header));
    for round in 0..3 {
        let death = "rio: chunk in the slab's list, not counted!panic";
        let died = rio::failpoint::armed_here(death, || catch_unwind(AssertUnwindSafe(|| theirs.grow())).is_err());
        assert!(died);
        // A reader may ask for a slot that does not exist, because it read the index from a damaged word.
        let index = mine.capacity() + 1;
        let dead = mine.place(index);
        assert_eq!((mine.at(index).get(), mine.iter().count()), (0, mine.capacity() as usize));
        assert!(theirs.grow().unwrap().contains(&index));
        assert_ne!(mine.place(index), dead);
        theirs.at(index).init(7 + round);
        assert_eq!(mine.at(index).get(), 7 + round);
        assert_eq!(mine.iter().last().map(Word::get), theirs.iter().last().map(Word::get));
        mine.check().unwrap();
    }
}
