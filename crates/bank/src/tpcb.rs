//! TPC-B as the paper modified it: the bank's scale, its records, and its transfers.
//!
//! Paper: LIBTP §5.1. One transfer changes the balance of an account, a teller and a branch,
//! and writes a history record. Accounts, tellers and branches are drawn uniformly and
//! independently of each other (TPC-B draws the teller from the branch). The paper gives no
//! record sizes, so the sizes are TPC-B's: 100 bytes, and 50 bytes for a history record.
//!
//! Invariants
//! 1. One seed and one client number always give the same transfers, on every engine.
//! 2. No two transfers of a run have the same id: it is `client << 40 | sequence`.

use serde::{Deserialize, Serialize};

/// Bytes of an account, teller or branch record.
pub const RECORD_BYTES: usize = 100;
/// Bytes of a history record.
pub const HISTORY_BYTES: usize = 50;
/// Offset of the balance, eight little-endian bytes, in a record.
pub const BALANCE_AT: usize = 8;
/// The largest amount moved, in either direction.
pub const AMOUNT_MAX: i64 = 999_999;
/// Number of low bits of a transfer's id. These bits count the client's transfers.
pub const SEQUENCE_BITS: u32 = 40;

/// The filler of every record. The audit notices damage to any byte of the filler.
const FILLER: u8 = b'.';

/// One of the bank's four tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// 1,000,000 accounts at the paper's scale.
    Account,
    /// 100 tellers.
    Teller,
    /// 10 branches, the hot records.
    Branch,
    /// One record for each committed transfer.
    History,
}

impl Table {
    /// The three tables of balances, in the order in which transfers usually lock their records.
    pub const BALANCES: [Table; 3] = [Table::Account, Table::Teller, Table::Branch];

    /// Returns the table's name, in the singular.
    pub fn name(self) -> &'static str {
        match self {
            Table::Account => "account",
            Table::Teller => "teller",
            Table::Branch => "branch",
            Table::History => "history",
        }
    }
}

/// The number of records of each kind in a bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// Accounts, numbered from 0.
    pub accounts: u32,
    /// Tellers, numbered from 0.
    pub tellers: u32,
    /// Branches, numbered from 0.
    pub branches: u32,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale::PAPER
    }
}

impl Scale {
    /// The paper's bank (§5.1): the size that TPC-B demands for 10 transactions a second.
    pub const PAPER: Scale = Scale { accounts: 1_000_000, tellers: 100, branches: 10 };
    /// The paper's small bank, all of which fits in memory (§5.1.2).
    pub const SMALL: Scale = Scale { accounts: 1_000, ..Scale::PAPER };

    /// Returns the paper's bank with another number of accounts.
    pub fn with_accounts(accounts: u32) -> Scale {
        Scale { accounts, ..Scale::PAPER }
    }

    /// Returns a bank of this many accounts and branches; each branch has ten tellers, as in the paper.
    pub fn with_branches(accounts: u32, branches: u32) -> Scale {
        Scale { accounts, tellers: branches.saturating_mul(10), branches }
    }

    /// Returns the number of records that the load writes into `table`; 0 for the history.
    pub fn count(&self, table: Table) -> u32 {
        match table {
            Table::Account => self.accounts,
            Table::Teller => self.tellers,
            Table::Branch => self.branches,
            Table::History => 0,
        }
    }

    /// Returns the number of records that the load writes.
    pub fn total(&self) -> u64 {
        Table::BALANCES.iter().map(|&t| u64::from(self.count(t))).sum()
    }
}

/// One withdrawal or deposit, as sent to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Unique: `client << 40 | sequence`.
    pub id: u64,
    /// The account, below `Scale::accounts`.
    pub account: u32,
    /// The teller, below `Scale::tellers`.
    pub teller: u32,
    /// The branch, below `Scale::branches`.
    pub branch: u32,
    /// Added to all three balances.
    pub amount: i64,
}

impl Transfer {
    /// Returns the number of the client that sent the transfer.
    pub fn client(&self) -> u64 {
        self.id >> SEQUENCE_BITS
    }

    /// Returns the id of the record that the transfer changes in one of the three tables of balances.
    ///
    /// # Panics
    /// For the history.
    pub fn record_in(&self, table: Table) -> u32 {
        match table {
            Table::Account => self.account,
            Table::Teller => self.teller,
            Table::Branch => self.branch,
            Table::History => panic!("a transfer has no record in the history before it commits"),
        }
    }

    /// Returns the transfer's history record: id, amount, account, teller, branch (little-endian), filler.
    pub fn to_history(&self) -> [u8; HISTORY_BYTES] {
        let mut record = [FILLER; HISTORY_BYTES];
        record[0..8].copy_from_slice(&self.id.to_le_bytes());
        record[8..16].copy_from_slice(&self.amount.to_le_bytes());
        record[16..20].copy_from_slice(&self.account.to_le_bytes());
        record[20..24].copy_from_slice(&self.teller.to_le_bytes());
        record[24..28].copy_from_slice(&self.branch.to_le_bytes());
        record
    }

    /// Decodes a history record. Returns `None` if the record's size or filler is wrong.
    pub fn from_history(record: &[u8]) -> Option<Transfer> {
        let record: &[u8; HISTORY_BYTES] = record.try_into().ok()?;
        if record[28..].iter().any(|&byte| byte != FILLER) {
            return None;
        }
        Some(Transfer {
            id: u64::from_le_bytes(record[0..8].try_into().ok()?),
            amount: i64::from_le_bytes(record[8..16].try_into().ok()?),
            account: u32::from_le_bytes(record[16..20].try_into().ok()?),
            teller: u32::from_le_bytes(record[20..24].try_into().ok()?),
            branch: u32::from_le_bytes(record[24..28].try_into().ok()?),
        })
    }
}

/// Makes the record of an account, teller or branch: id, balance (little-endian), filler.
pub fn new_record(id: u32, balance: i64) -> [u8; RECORD_BYTES] {
    let mut record = [FILLER; RECORD_BYTES];
    record[0..8].copy_from_slice(&u64::from(id).to_le_bytes());
    record[BALANCE_AT..BALANCE_AT + 8].copy_from_slice(&balance.to_le_bytes());
    record
}

/// Returns the balance of a record of at least 16 bytes.
///
/// # Panics
/// If the record has fewer than 16 bytes: then the engine has returned bytes that are no record of the bank.
#[inline]
pub fn balance_of(record: &[u8]) -> i64 {
    let bytes = record[BALANCE_AT..BALANCE_AT + 8].try_into();
    i64::from_le_bytes(bytes.expect("a slice of eight bytes is an array of eight bytes"))
}

/// Adds `amount` to the balance inside a record, and returns the new balance.
///
/// # Panics
/// If the record has fewer than 16 bytes.
#[inline]
pub fn add_to_balance(record: &mut [u8], amount: i64) -> i64 {
    let balance = balance_of(record).wrapping_add(amount);
    record[BALANCE_AT..BALANCE_AT + 8].copy_from_slice(&balance.to_le_bytes());
    balance
}

/// Returns whether `record` is record `id` as the load wrote it, except for the balance, which may have any value.
pub fn is_intact(id: u64, record: &[u8]) -> bool {
    record.len() == RECORD_BYTES
        && record[0..8] == id.to_le_bytes()
        && record[BALANCE_AT + 8..].iter().all(|&byte| byte == FILLER)
}

/// A client's endless, repeatable stream of transfers.
#[derive(Debug, Clone)]
pub struct Transfers {
    scale: Scale,
    state: u64,
    next_id: u64,
}

impl Transfers {
    /// Starts the stream of one client; `client` is below 2^24.
    pub fn new(scale: Scale, seed: u64, client: u32) -> Transfers {
        // Without the inner `mix`, clients with neighbouring numbers would get parts of the same stream.
        let state = mix(seed ^ mix(u64::from(client).wrapping_add(1)));
        Transfers { scale, state, next_id: u64::from(client) << SEQUENCE_BITS }
    }

    /// Makes the next transfer. `Transfers` is no `Iterator`, because its stream never ends.
    #[inline]
    pub fn next_transfer(&mut self) -> Transfer {
        let id = self.next_id;
        self.next_id += 1;
        let span = (2 * AMOUNT_MAX + 1).unsigned_abs();
        Transfer {
            id,
            account: self.below(self.scale.accounts),
            teller: self.below(self.scale.tellers),
            branch: self.below(self.scale.branches),
            amount: i64::try_from(self.below_u64(span)).expect("the span fits in 21 bits") - AMOUNT_MAX,
        }
    }

    /// Returns a number below `bound`, uniform to within 2^-32.
    #[inline]
    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below_u64(u64::from(bound))).expect("it is below a 32-bit bound")
    }

    #[inline]
    fn below_u64(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let wide = u128::from(mix(self.state)) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits has 64")
    }
}

/// Returns SplitMix64's output function of `z`: every bit of the input influences every bit of the output.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_client_always_give_the_same_transfers() {
        let mut stream = Transfers::new(Scale::PAPER, 42, 3);
        let first = stream.next_transfer();
        let mut again = Transfers::new(Scale::PAPER, 42, 3);
        assert_eq!(first, again.next_transfer());
        // Fixed values: after a change of the generator, new figures could not be compared with old figures.
        assert_eq!(first.id, 3 << SEQUENCE_BITS);
        assert_eq!((first.account, first.teller, first.branch, first.amount), GOLDEN_FIRST_OF_CLIENT_3);
        for _ in 0..1000 {
            assert_eq!(stream.next_transfer(), again.next_transfer());
        }
    }

    const GOLDEN_FIRST_OF_CLIENT_3: (u32, u32, u32, i64) = (546_114, 14, 4, 749_374);

    #[test]
    fn clients_and_seeds_do_not_share_their_streams() {
        let draw = |seed, client| {
            let mut stream = Transfers::new(Scale::PAPER, seed, client);
            (0..100).map(|_| stream.next_transfer().account).collect::<Vec<_>>()
        };
        let streams = [draw(1, 0), draw(1, 1), draw(2, 0), draw(2, 1), draw(0, 0), draw(0, 1)];
        for (i, one) in streams.iter().enumerate() {
            for other in &streams[i + 1..] {
                let same = one.iter().zip(other).filter(|(a, b)| a == b).count();
                assert!(same < 3, "two streams agree in {same} of 100 accounts");
            }
        }
    }

    #[test]
    fn draws_are_uniform_over_accounts_tellers_branches_and_amounts() {
        let scale = Scale::SMALL;
        let mut stream = Transfers::new(scale, 7, 0);
        let mut accounts = vec![0u32; 1000];
        let mut tellers = vec![0u32; 100];
        let mut branches = [0u32; 10];
        let mut sum = 0i64;
        for _ in 0..1_000_000 {
            let transfer = stream.next_transfer();
            accounts[transfer.account as usize] += 1;
            tellers[transfer.teller as usize] += 1;
            branches[transfer.branch as usize] += 1;
            assert!(transfer.amount.abs() <= AMOUNT_MAX);
            sum += transfer.amount;
        }
        // Six standard deviations: 1000 +- 190, 10,000 +- 600, 100,000 +- 1,800.
        assert!(accounts.iter().all(|&n| n.abs_diff(1_000) < 190));
        assert!(tellers.iter().all(|&n| n.abs_diff(10_000) < 600));
        assert!(branches.iter().all(|&n| n.abs_diff(100_000) < 1_800));
        assert!((sum / 1_000_000).abs() < 3_500, "the mean amount is not near zero; the sum is {sum}");
    }

    #[test]
    fn a_history_record_decodes_to_its_transfer() {
        let mut stream = Transfers::new(Scale::PAPER, 1, 9);
        for _ in 0..100 {
            let transfer = stream.next_transfer();
            assert_eq!(Transfer::from_history(&transfer.to_history()), Some(transfer));
            assert_eq!(transfer.client(), 9);
        }
        let mut damaged = stream.next_transfer().to_history();
        damaged[49] ^= 1;
        assert_eq!(Transfer::from_history(&damaged), None);
        assert_eq!(Transfer::from_history(&damaged[..49]), None);
    }

    #[test]
    fn a_record_keeps_its_id_and_filler_while_its_balance_changes() {
        let mut record = new_record(17, -5);
        assert_eq!(add_to_balance(&mut record, 12), 7);
        assert_eq!(balance_of(&record), 7);
        assert!(is_intact(17, &record));
        assert!(!is_intact(18, &record));
        record[99] = 0;
        assert!(!is_intact(17, &record));
    }
}
