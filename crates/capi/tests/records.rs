//! Programs in C with `libtp.h`, run as they are.
#![allow(clippy::unwrap_used)]

mod c;

use std::process::Command;

use c::{compiled, says, told, Link};

#[test]
fn a_bank_in_c_keeps_its_money_through_deaths() {
    let directory = tempfile::tempdir().unwrap();
    for link in [Link::Static, Link::Shared] {
        let program = compiled("examples/bank.c", directory.path(), link);
        let home = tempfile::tempdir().unwrap();
        let bank = home.path().join("bank");
        let bank = bank.to_str().unwrap();
        says(&program, &[bank, "open", "20"]);
        assert_eq!(says(&program, &[bank, "audit"]), "20 accounts, sum 2000, no transfers\n");
        says(&program, &[bank, "transfer", "50"]);
        let died = Command::new(&program).args([bank, "die", "5"]).output().unwrap();
        assert_eq!(died.status.code(), Some(9), "{}", told(&died));
        assert_eq!(says(&program, &[bank, "audit"]), "20 accounts, sum 2000, with a history\n");
        assert_eq!(says(&program, &[bank, "show"]).lines().count(), 21);
        let twice = Command::new(&program).args([bank, "open", "20"]).output().unwrap();
        assert!(told(&twice).contains("open: the key is there already"), "{}", told(&twice));
    }
}
