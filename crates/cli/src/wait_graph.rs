//! The waits-for graph, with the names of transactions and processes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc;

use libtp::{Edge, Env, LockerId, Settings};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::lock_names::{kind_name, LockNames};

/// A locker that holds locks or waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Party {
    /// The locker's number in the lock manager.
    pub locker: u32,
    /// The locker's transaction; `None` if the transaction has ended meanwhile.
    pub txn: Option<u64>,
    /// The locker's process; `None` if the locker's session has ended meanwhile.
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

/// A wait of one transaction for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    pub waiter: Party,
    pub holder: Party,
    pub database: String,
    pub object: &'static str,
    /// A page's number, or the hash of a key or of a record's number.
    pub name: u64,
    pub wanted: String,
    /// The locked object in words.
    #[serde(skip)]
    pub words: String,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { waiter, holder, wanted, words, .. } = self;
        write!(f, "{waiter} waits for {holder}: {wanted} on {words}")
    }
}

/// Starts to read the lock table on a separate thread, because a stopped process may hold the table's latches. If the
/// latches stay held, the thread lives until this process ends. Other processes then repair the thread's session, as
/// they repair the session of a killed process.
pub fn read_on_a_thread<T: Send + 'static>(
    directory: PathBuf,
    read: impl FnOnce(&Env) -> Result<T> + Send + 'static,
) -> mpsc::Receiver<Result<T>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let settings = Settings { no_background: true, ..Settings::default() };
        let opened = Env::builder().create(false).settings(settings).open(directory).map_err(Failure::from);
        // The receiver is gone if the read took too long.
        let _ = tell.send(opened.and_then(|env| read(&env)));
    });
    told
}

/// All waits at about one moment, and their lockers.
pub struct WaitGraph {
    edges: Vec<Edge>,
    parties: BTreeMap<u32, Party>,
}

impl WaitGraph {
    /// Reads the lock table.
    pub fn look(env: &Env) -> Result<WaitGraph> {
        let edges = env.waits_for()?;
        let sessions = env.sessions();
        let party = |txn: libtp::TxnInfo| {
            let session = sessions.iter().find(|session| session.id == txn.session);
            let pid = session.map(|session| session.pid);
            (txn.locker, Party { locker: txn.locker, txn: Some(txn.id), pid })
        };
        Ok(WaitGraph { edges, parties: env.transactions().into_iter().map(party).collect() })
    }

    /// Returns the pairs of waiters and holders.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the pairs of waiters and holders, in the names of transactions and databases.
    pub fn waits(&self, names: &LockNames) -> Vec<Wait> {
        let wait = |edge: &Edge| Wait {
            waiter: self.party(edge.waiter),
            holder: self.party(edge.holder),
            database: names.database(edge.name),
            object: kind_name(edge.name.kind),
            name: edge.name.hash,
            wanted: edge.wanted.to_string(),
            words: names.words(edge.name),
        };
        self.edges.iter().map(wait).collect()
    }

    /// Returns the transaction and the process of a locker.
    pub fn party(&self, locker: LockerId) -> Party {
        let unknown = || Party { locker: locker.0, txn: None, pid: None };
        self.parties.get(&locker.0).cloned().unwrap_or_else(unknown)
    }

    /// Returns the graph in Graphviz' language: `tp locks --wait-for --dot | dot -Tsvg`.
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

/// Returns a string of Graphviz' language. Quotes in the text are escaped, and so are backslashes, which would begin an
/// escape.
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
    fn a_party_is_named_by_its_transaction_or_else_by_its_locker() {
        let party = |txn, pid| Party { locker: 3, txn, pid }.to_string();
        assert_eq!(party(Some(7), Some(99)), "txn 7 (process 99)");
        assert_eq!(party(None, None), "locker 3");
    }
}
