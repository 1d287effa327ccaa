//! The audit of a bank: reads every record, and compares the balances with the history.
//!
//! TPC-B's consistency conditions: the balances of all accounts, of all tellers, of all branches, and all amounts in
//! the history have the same sum. The audit checks more. The balance of each record is the sum of the amounts that the
//! history has for this record, no transfer is in the history twice, no record is damaged, and the history has one
//! record for each acknowledged transaction.

use crate::tpcb::{balance_of, is_intact, Scale, Table, Transfer, SEQUENCE_BITS};

/// Number of faults that a verdict describes. Further faults are only counted.
const FAULTS_DESCRIBED: usize = 4;

/// The findings of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Sum of all balances of accounts.
    pub accounts_sum: i128,
    /// Sum of all balances of tellers.
    pub tellers_sum: i128,
    /// Sum of all balances of branches.
    pub branches_sum: i128,
    /// Sum of all amounts in the history.
    pub history_sum: i128,
    /// Number of history records.
    pub history_count: u64,
    /// The ids of all transfers in the history, sorted.
    pub transfers: Vec<u64>,
    /// The client number above all client numbers of the history.
    pub next_client: u32,
    /// Balances of accounts, tellers and branches, by id.
    balances: [Vec<Option<i64>>; 3],
    fault_count: u64,
    faults: Vec<String>,
}

impl Audit {
    /// Returns the sum of the balances of a transfer's account, teller and branch, or `None` if one of them is missing.
    pub fn sum_of(&self, transfer: &Transfer) -> Option<i64> {
        let balances = Table::BALANCES.map(|table| {
            let id = usize::try_from(transfer.record_in(table)).ok()?;
            *self.balances[place(table)].get(id)?
        });
        balances.into_iter().try_fold(0_i64, |sum, balance| Some(sum.wrapping_add(balance?)))
    }

    /// Returns `ok`, or a description of the faults. `committed` is the number of transactions that the engine has
    /// acknowledged since the bank was loaded.
    pub fn verdict(&self, committed: u64) -> String {
        let mut said = Vec::new();
        let sums = [self.accounts_sum, self.tellers_sum, self.branches_sum];
        if sums.iter().any(|&sum| sum != self.history_sum) {
            said.push(format!(
                "balances of accounts add up to {}, of tellers to {}, of branches to {}, amounts in the history to {}",
                sums[0], sums[1], sums[2], self.history_sum
            ));
        }
        if self.history_count != committed {
            said.push(format!("{} transactions were acknowledged, the history has {}", committed, self.history_count));
        }
        said.extend(self.faults.iter().cloned());
        let unreported = self.fault_count - self.faults.len() as u64;
        if unreported > 0 {
            said.push(format!("and {unreported} more faults"));
        }
        if said.is_empty() {
            return "ok".to_string();
        }
        said.join("; ")
    }
}

/// An audit in progress: collects balances and history records while an engine walks the bank.
#[derive(Debug)]
pub struct Tally {
    scale: Scale,
    balances: [Vec<Option<i64>>; 3],
    moved: [Vec<i64>; 3],
    history_sum: i128,
    transfers: Vec<u64>,
    fault_count: u64,
    faults: Vec<String>,
}

impl Tally {
    /// Starts the audit of a bank of this scale.
    pub fn new(scale: Scale) -> Tally {
        let sizes = Table::BALANCES.map(|table| scale.count(table) as usize);
        Tally {
            scale,
            balances: sizes.map(|size| vec![None; size]),
            moved: sizes.map(|size| vec![0; size]),
            history_sum: 0,
            transfers: Vec::new(),
            fault_count: 0,
            faults: Vec::new(),
        }
    }

    /// Adds one account, teller or branch record to the audit.
    pub fn see_balance(&mut self, table: Table, id: u64, record: &[u8]) {
        if !is_intact(id, record) {
            return self.fault(format!("{} record {id} is damaged", table.name()));
        }
        let slot = usize::try_from(id).ok().and_then(|i| self.balances[place(table)].get_mut(i));
        match slot {
            None => self.fault(format!("{} record {id} is beyond the bank's scale", table.name())),
            Some(Some(_)) => self.fault(format!("{} record {id} occurs twice", table.name())),
            Some(empty) => *empty = Some(balance_of(record)),
        }
    }

    /// Adds one history record to the audit.
    pub fn see_history(&mut self, record: &[u8]) {
        let Some(transfer) = Transfer::from_history(record) else {
            return self.fault(format!("a history record of {} bytes is damaged", record.len()));
        };
        self.transfers.push(transfer.id);
        self.history_sum += i128::from(transfer.amount);
        for table in Table::BALANCES {
            let id = transfer.record_in(table);
            match self.moved[place(table)].get_mut(id as usize) {
                Some(sum) => *sum = sum.wrapping_add(transfer.amount),
                None => {
                    self.fault(format!("transfer {} names {} {id}, beyond the bank's scale", transfer.id, table.name()))
                }
            }
        }
    }

    /// Compares the balances with the history, and returns the findings.
    pub fn finish(mut self) -> Audit {
        let mut transfers = std::mem::take(&mut self.transfers);
        transfers.sort_unstable();
        for pair in transfers.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.fault(format!("transfer {} is in the history twice", pair[0]));
        }
        for table in Table::BALANCES {
            for id in 0..self.scale.count(table) {
                self.compare(table, id);
            }
        }
        let sum = |table| -> i128 { self.balances[place(table)].iter().flatten().map(|&b| i128::from(b)).sum() };
        Audit {
            accounts_sum: sum(Table::Account),
            tellers_sum: sum(Table::Teller),
            branches_sum: sum(Table::Branch),
            history_sum: self.history_sum,
            history_count: transfers.len() as u64,
            next_client: next_client(transfers.last()),
            transfers,
            balances: self.balances,
            fault_count: self.fault_count,
            faults: self.faults,
        }
    }

    fn compare(&mut self, table: Table, id: u32) {
        let moved = self.moved[place(table)][id as usize];
        match self.balances[place(table)][id as usize] {
            None => self.fault(format!("{} record {id} is missing", table.name())),
            Some(balance) if balance != moved => self
                .fault(format!("{} record {id} has balance {balance}, its history adds up to {moved}", table.name())),
            Some(_) => {}
        }
    }

    fn fault(&mut self, what: String) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_DESCRIBED {
            self.faults.push(what);
        }
    }
}

/// Returns the first client number above the client number of the greatest transfer.
pub(crate) fn next_client(greatest_transfer: Option<&u64>) -> u32 {
    greatest_transfer.map_or(0, |id| u32::try_from(id >> SEQUENCE_BITS).expect("24 bits remain of a transfer's id") + 1)
}

fn place(table: Table) -> usize {
    match table {
        Table::Account => 0,
        Table::Teller => 1,
        Table::Branch => 2,
        Table::History => panic!("the history has no balances"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcb::{new_record, Transfers};

    const SCALE: Scale = Scale { accounts: 50, tellers: 5, branches: 2 };

    /// The records of a bank, as lists that a test may falsify.
    struct Bank {
        balances: [Vec<i64>; 3],
        history: Vec<Vec<u8>>,
    }

    /// Returns a correct bank after ten transfers.
    fn bank() -> Bank {
        let mut bank = Bank { balances: [vec![0; 50], vec![0; 5], vec![0; 2]], history: vec![] };
        let mut stream = Transfers::new(SCALE, 1, 2);
        for _ in 0..10 {
            let transfer = stream.next_transfer();
            for table in Table::BALANCES {
                bank.balances[place(table)][transfer.record_in(table) as usize] += transfer.amount;
            }
            bank.history.push(transfer.to_history().to_vec());
        }
        bank
    }

    fn audit(bank: &Bank) -> Audit {
        let mut tally = Tally::new(SCALE);
        for table in Table::BALANCES {
            for (id, &balance) in (0u32..).zip(&bank.balances[place(table)]) {
                tally.see_balance(table, id.into(), &new_record(id, balance));
            }
        }
        bank.history.iter().for_each(|record| tally.see_history(record));
        tally.finish()
    }

    #[test]
    fn the_verdict_on_a_correct_bank_is_ok() {
        let audit = audit(&bank());
        assert_eq!(audit.verdict(10), "ok");
        assert_eq!(audit.next_client, 3);
        assert_eq!(audit.transfers.len(), 10);
    }

    #[test]
    fn a_wrong_balance_in_any_table_is_named() {
        for table in Table::BALANCES {
            let mut bank = bank();
            bank.balances[place(table)][1] += 1;
            let verdict = audit(&bank).verdict(10);
            assert!(verdict.contains(&format!("{} record 1", table.name())), "{verdict}");
            assert!(verdict.contains("add up to"), "{verdict}");
        }
    }

    #[test]
    fn money_moved_between_two_accounts_is_noticed_although_the_sums_agree() {
        let mut bank = bank();
        bank.balances[0][3] += 100;
        bank.balances[0][4] -= 100;
        let verdict = audit(&bank).verdict(10);
        assert!(verdict.starts_with("account record 3"), "{verdict}");
    }

    #[test]
    fn a_lost_transfer_a_duplicate_and_an_unacknowledged_transfer_are_noticed() {
        let mut lost = bank();
        lost.history.pop();
        assert!(audit(&lost).verdict(10).contains("10 transactions were acknowledged"));
        let mut doubled = bank();
        doubled.history[0] = doubled.history[1].clone();
        assert!(audit(&doubled).verdict(10).contains("twice"));
        assert!(audit(&bank()).verdict(9).contains("9 transactions were acknowledged"));
    }

    #[test]
    fn damaged_missing_foreign_and_duplicate_records_are_noticed() {
        let mut damaged = bank();
        damaged.history[4][30] = 0;
        assert!(audit(&damaged).verdict(10).contains("damaged"));
        let mut tally = Tally::new(SCALE);
        tally.see_balance(Table::Branch, 0, &new_record(0, 0));
        tally.see_balance(Table::Branch, 0, &new_record(0, 0));
        tally.see_balance(Table::Branch, 7, &new_record(7, 0));
        tally.see_balance(Table::Branch, 1, &new_record(7, 0));
        let audit = tally.finish();
        let verdict = audit.verdict(0);
        for word in ["twice", "beyond", "damaged", "missing", "more faults"] {
            assert!(verdict.contains(word), "{word} is not in {verdict}");
        }
    }
}
