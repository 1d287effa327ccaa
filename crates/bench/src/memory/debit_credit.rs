//! Debit-credit: TPC-B with its audit trail in a circular buffer of 2 MB (Rio Vista, section 5.1).
//!
//! A transaction adds an amount to an account, to a teller and to a branch, writes a record into the trail, and
//! advances the trail's end: five ranges. Records have the sizes that TPC-B asks for. With five branches, the database
//! is as large as the synthetic benchmark's.

use std::ops::Range;

use super::change::{add, Change, Memory};
use super::synthetic::drawn;
use super::{size, Work};
use crate::error::Result;

/// Bytes of a branch's, teller's and account's record; the balance comes first.
const RECORD: u64 = 104;
const TRAIL_RECORD: u64 = 50;
const TRAIL_RECORDS: u64 = (2 << 20) / TRAIL_RECORD;

/// Offset of the trail's end, which is a record's number.
const NEXT: u64 = 0;
const FIRST_BRANCH: u64 = 64;

/// A database of `BRANCHES` branches with their tellers and accounts, about 10 MB for each branch.
pub(super) struct DebitCredit<const BRANCHES: u64>;

impl<const BRANCHES: u64> DebitCredit<BRANCHES> {
    const TELLERS: u64 = 10 * BRANCHES;
    const ACCOUNTS: u64 = 100_000 * BRANCHES;
    const FIRST_TELLER: u64 = FIRST_BRANCH + BRANCHES * RECORD;
    const FIRST_ACCOUNT: u64 = Self::FIRST_TELLER + Self::TELLERS * RECORD;
    const TRAIL: u64 = Self::FIRST_ACCOUNT + Self::ACCOUNTS * RECORD;
}

impl<const BRANCHES: u64> Work for DebitCredit<BRANCHES> {
    const BYTES: u64 = Self::TRAIL + TRAIL_RECORDS * TRAIL_RECORD;

    fn load(&self, memory: &mut [u8]) {
        memory.fill(0);
    }

    fn run<M: Memory>(&self, memory: &mut M, numbers: Range<u64>) -> Result<()> {
        // Each case is compiled separately: a test in every transaction would cost too much, because a transaction
        // takes only 100 ns.
        match memory.announces() {
            true => Self::transfer::<M, true>(memory, numbers),
            false => Self::transfer::<M, false>(memory, numbers),
        }
    }

    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String> {
        let sum = |first: u64, count: u64| -> i64 {
            let balances = memory[size(first)..].chunks_exact(size(RECORD)).take(size(count));
            balances.map(|record| i64::from_ne_bytes(*record.first_chunk().expect("a record is longer"))).sum()
        };
        let sums =
            [(FIRST_BRANCH, BRANCHES), (Self::FIRST_TELLER, Self::TELLERS), (Self::FIRST_ACCOUNT, Self::ACCOUNTS)];
        let sums = sums.map(|(first, count)| sum(first, count));
        if sums.iter().all(|sum| *sum == sums[0]) {
            return Ok(());
        }
        Err(format!("the balances of branches, tellers and accounts have different sums: {sums:?}"))
    }
}

impl<const BRANCHES: u64> DebitCredit<BRANCHES> {
    /// Carries out the transactions with these numbers. `ANNOUNCES`: each transaction announces its ranges.
    #[inline(always)]
    fn transfer<M: Memory, const ANNOUNCES: bool>(memory: &mut M, numbers: Range<u64>) -> Result<()> {
        for nth in numbers {
            let lot = drawn(nth);
            let account = lot % Self::ACCOUNTS;
            // TPC-B mostly draws the account from the teller's branch. Here the account does not depend on the branch,
            // which hardly changes the cost.
            let teller = (lot >> 20) % Self::TELLERS;
            let branch = teller / (Self::TELLERS / BRANCHES);
            let amount = i64::try_from(lot >> 30 & 0xffff).unwrap_or(0) - 0x8000;
            let mut txn = memory.begin()?;
            if ANNOUNCES {
                let place = u64::from_ne_bytes(txn.look(NEXT)?);
                txn.announce(&[
                    (Self::FIRST_ACCOUNT + account * RECORD, 8),
                    (Self::FIRST_TELLER + teller * RECORD, 8),
                    (FIRST_BRANCH + branch * RECORD, 8),
                    (NEXT, 8),
                    (Self::TRAIL + place * TRAIL_RECORD, size(TRAIL_RECORD)),
                ])?;
            }
            let balance = add(&mut txn, Self::FIRST_ACCOUNT + account * RECORD, amount)?;
            add(&mut txn, Self::FIRST_TELLER + teller * RECORD, amount)?;
            add(&mut txn, FIRST_BRANCH + branch * RECORD, amount)?;
            let next = txn.range::<8>(NEXT)?;
            let place = u64::from_ne_bytes(*next);
            *next = if place + 1 == TRAIL_RECORDS { 0 } else { place + 1 }.to_ne_bytes();
            let record = txn.range::<50>(Self::TRAIL + place * TRAIL_RECORD)?;
            let numbers = [account, teller, branch, nth].map(u64::to_ne_bytes);
            let fields = numbers.into_iter().chain([amount, balance].map(i64::to_ne_bytes));
            for (field, value) in record.chunks_exact_mut(8).zip(fields) {
                field.copy_from_slice(&value);
            }
            txn.end()?;
        }
        Ok(())
    }
}
