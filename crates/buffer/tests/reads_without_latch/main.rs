//! Models of docs/design/0022: inner pages that are read without their latch.
//!
//! No run of a program shows all orders of the steps of a reader, a writer, the writer's death and its repair, and a
//! bug may show only once in millions of searches. Here all orders are visited, with a death between any two
//! instructions. For each rule of that document there is a planted variant without the rule, and the search must find
//! its bug.

mod dead_writer;
mod freed_child;
mod machine;

use dead_writer::DeadWriter;
use freed_child::FreedChild;
use machine::explore;

#[test]
fn a_reader_without_the_parents_latch_is_never_led_to_a_freed_page() {
    use freed_child::Variant;
    for variant in [Variant::Barrier, Variant::EnteredBySwap] {
        let states = explore(FreedChild::new(variant)).unwrap_or_else(|way| panic!("{variant:?}: {way}"));
        println!("{variant:?}: {states} states");
        assert!(states > 500, "{states} states are too few to be all");
    }
}

#[test]
fn each_missing_step_around_a_freed_page_is_found() {
    use freed_child::Variant;
    for variant in [
        Variant::NoBarrier,
        Variant::BarrierAfterLooks,
        Variant::EpochBeforeUnlinking,
        Variant::EnteredLate,
        Variant::LowFenceAlone,
    ] {
        let way = explore(FreedChild::new(variant)).expect_err(&format!("{variant:?} breaks nothing"));
        println!("{variant:?}: {way}");
    }
}

#[test]
fn no_reader_accepts_half_a_change_even_if_sessions_die() {
    use dead_writer::Variant;
    for variant in [Variant::Right, Variant::OddFirst, Variant::EvenBeforeClose] {
        let states = explore(DeadWriter::new(variant)).unwrap_or_else(|way| panic!("{variant:?}: {way}"));
        println!("{variant:?}: {states} states");
        assert!(states > 10_000, "{states} states are too few to be all");
    }
}

#[test]
fn each_missing_step_around_a_dead_writer_is_found() {
    use dead_writer::Variant;
    for variant in [
        Variant::RepairLeavesCount,
        Variant::RepairLeavesEarlyCount,
        Variant::RightEarlyCount,
        Variant::EvenBeforeRedo,
        Variant::EvenAfterLatch,
        Variant::RepairAddsOne,
        Variant::RepairResetsCount,
        Variant::CountInSection,
        Variant::WriterEvenAfterLatch,
        Variant::OneLook,
        Variant::OddBelieved,
    ] {
        let way = explore(DeadWriter::new(variant)).expect_err(&format!("{variant:?} breaks nothing"));
        println!("{variant:?}: {way}");
    }
}
