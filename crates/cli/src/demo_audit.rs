//! The audit at the end of a demonstration, which reads every record once.

use libtp_bank::{Engine, Libtp, Scale, Table, Tally};

use crate::acknowledgements::{Acknowledged, Difference};
use crate::failure::Result;
use crate::output::Output;
use crate::progress::Progress;

/// Result of the audit.
pub struct Verdict {
    /// `ok`, or the disagreements.
    pub audit: String,
    /// Number of history records.
    pub history: u64,
    /// Result of comparing the history with the acknowledgements.
    pub difference: Difference,
}

/// Reads every record once. Compares the balances with the history, and the history with the acknowledgements.
pub fn audit(
    bank: &Libtp,
    scale: &Scale,
    acknowledged: Acknowledged,
    first_client: u32,
    output: &Output,
) -> Result<Verdict> {
    let bar = Progress::endless(output.may_draw(), "records audited:");
    let mut tally = Tally::new(*scale);
    let mut seen = 0;
    let mut count = || {
        seen += 1;
        if seen % 4096 == 0 {
            bar.set(seen);
        }
    };
    for table in Table::BALANCES {
        bank.walk(table, &mut |id, record| {
            count();
            tally.see_balance(table, id, record);
        })?;
    }
    let mut comparison = acknowledged.compare();
    bank.walk(Table::History, &mut |_, record| {
        count();
        tally.see_history(record);
        comparison.see(record, first_client);
    })?;
    let (audit, difference) = (tally.finish(), comparison.finish());
    let mut said = difference.faults.clone();
    let books = audit.verdict(audit.history_count);
    if books != "ok" {
        said.push(books);
    }
    let audit_said = if said.is_empty() { "ok".to_string() } else { said.join("; ") };
    Ok(Verdict { audit: audit_said, history: audit.history_count, difference })
}
