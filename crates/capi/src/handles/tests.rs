//! Tests of handles: misuse, and threads that insert and remove values at once.

use super::*;

struct Thing(u32);

static THINGS: Table<Thing> = Table::new();

impl Kind for Thing {
    const CODE: usize = 2;
    fn table() -> &'static Table<Thing> {
        &THINGS
    }
}

fn message_of<T>(refused: Outcome<T>) -> String {
    match refused {
        Ok(_) => String::new(),
        Err(trouble) => trouble.text(),
    }
}

fn handle(word: usize) -> Handle<Thing> {
    Handle(std::ptr::without_provenance_mut(word), PhantomData)
}

#[test]
fn a_word_that_is_no_handle_is_refused_with_an_error() {
    assert!(message_of(THINGS.pin(Handle::NULL)).starts_with("NULL was given for a database"));
    let on_the_stack = 7;
    let address = (&raw const on_the_stack).addr() & !1;
    for strange in [8, 77 << 1 | 1, 2 << 1 | 1 | 0xfff_fff0_0000, address] {
        assert!(message_of(THINGS.pin(handle(strange))).contains("is not a handle of this library"), "{strange:#x}");
    }
    assert!(
        message_of(THINGS.pin(handle(1 << 1 | 1))).contains("the call needs a database, and a transaction was given")
    );
}

#[test]
fn a_closed_handle_is_refused_even_after_its_slot_has_a_new_value() {
    let first = THINGS.insert(Thing(1)).ok().unwrap();
    assert_eq!(THINGS.remove(first, "").ok().unwrap().0, 1);
    let mut others = Vec::new();
    for nth in 0..100 {
        others.push(THINGS.insert(Thing(nth)).ok().unwrap());
    }
    assert!(message_of(THINGS.hold(first)).contains("ended or closed before"));
    assert!(message_of(THINGS.remove(first, "")).contains("ended or closed before"));
    assert!(!THINGS.has(first));
    for (nth, other) in (0..).zip(others) {
        assert_eq!(THINGS.remove(other, "").ok().unwrap().0, nth);
    }
}

#[test]
fn holding_or_removing_a_value_is_refused_while_another_call_uses_the_value() {
    let thing = THINGS.insert(Thing(5)).ok().unwrap();
    let (one, other) = (THINGS.pin(thing).ok().unwrap(), THINGS.pin(thing).ok().unwrap());
    assert!(one.is(&other) && one.0 == 5);
    assert!(message_of(THINGS.hold(thing)).contains("another call of this program"));
    assert!(message_of(THINGS.remove(thing, "close them")).contains("in use 2 times: close them"));
    drop((one, other));
    let mut held = THINGS.hold(thing).ok().unwrap();
    held.0 = 6;
    // If another thread forks now, the child finds the value held, and gets the same error.
    let refused = message_of(THINGS.hold(thing));
    assert!(refused.contains("another call of this program") && refused.contains("the child of a fork"));
    assert!(message_of(THINGS.pin(thing)).contains("another call of this program"));
    drop(held);
    assert_eq!(THINGS.hold(thing).ok().unwrap().remove().0, 6);
    assert!(message_of(THINGS.pin(thing)).contains("ended or closed before"));
}

#[test]
fn no_two_threads_get_the_same_slot_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for nth in 0..20_000_u32 {
                    let mine = thread << 24 | nth;
                    let handle = THINGS.insert(Thing(mine)).ok().unwrap();
                    let held = THINGS.hold(handle).ok().unwrap();
                    assert_eq!(held.0, mine);
                    assert_eq!(held.remove().0, mine);
                }
            });
        }
    });
}
