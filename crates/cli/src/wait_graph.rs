//! Who waits for whom, with the names that people know: transactions and processes.

use std::collections::BTreeMap;
use std::fmt;

use libtp::{Edge, Env, LockerId};
use serde::Serialize;

use crate::failure::Result;
use crate::lock_names::LockNames;

/// Whoever holds locks or waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Party {
    /// The number under which it is known to the lock manager.
    pub locker: u32,
    /// Its transaction; none if it ended meanwhile.
    pub txn: Option<u64>,
    /// Its process; none if it ended meanwhile.
    pub pid: Option<u32>,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.txn {
            Some(txn) => write!(f, "txn {txn}")?,
            None => write!(f, "locker {}", self.locker)?,
        }
        self.pid.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}

/// All waits at about one moment, and who takes part in them.
pub struct WaitGraph {
    edges: Vec<Edge>,
    parties: BTreeMap<u32, Party>,
}

impl WaitGraph {
    /// Looks at the lock table.
    pub fn look(env: &Env) -> Result<WaitGraph> {
        let edges = env.waits_for()?;
        let sessions = env.sessions();
        let party = |txn: libtp::TxnInfo| {
            let session = sessions.iter().find(|session| session.id == txn.session);
            let pid = session.map(|session| session.pid);
            (txn.locker, Party { locker: txn.locker, txn: Some(txn.id.raw()), pid })
        };
        Ok(WaitGraph { edges, parties: env.transactions().into_iter().map(party).collect() })
    }

    /// Who waits for whom.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Who that is.
    pub fn party(&self, locker: LockerId) -> Party {
        let unknown = || Party { locker: locker.0, txn: None, pid: None };
        self.parties.get(&locker.0).cloned().unwrap_or_else(unknown)
    }

    /// The graph in Graphviz' language: `tp locks --wait-for --dot | dot -Tsvg`.
    pub fn dot(&self, names: &LockNames) -> String {
        let mut nodes: BTreeMap<u32, Party> = BTreeMap::new();
        for locker in self.edges.iter().flat_map(|edge| [edge.waiter, edge.holder]) {
            nodes.entry(locker.0).or_insert_with(|| self.party(locker));
        }
        let mut text = String::from("digraph waits_for {\n");
        for (locker, party) in &nodes {
            text.push_str(&format!("  locker{locker} [label={}];\n", quoted(&party.to_string())));
        }
        for edge in &self.edges {
            let label = format!("{} on {}", edge.wanted, names.words(edge.name));
            text.push_str(&format!(
                "  locker{} -> locker{} [label={}];\n",
                edge.waiter.0,
                edge.holder.0,
                quoted(&label)
            ));
        }
        text.push('}');
        text
    }
}

/// A string of the language: a quote inside is escaped, and a backslash too, which would be the first half of an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_cannot_end_a_string() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
    }

    #[test]
    fn a_party_is_named_by_its_transaction_if_it_has_one() {
        let party = |txn, pid| Party { locker: 3, txn, pid }.to_string();
        assert_eq!(party(Some(7), Some(99)), "txn 7 (process 99)");
        assert_eq!(party(None, None), "locker 3");
    }
}
