//! The transaction manager's own log-record types. Their records change no page, so redo and undo skip them.

use crate::application::Applications;
use crate::log_records::{databases, left, segments_of, Checkpoint, ABORT_END, CHECKPOINT, COMMIT, DATABASES, LEFT};
use crate::managers::record_table::{PageList, RecordTable, RecordType};

/// Makes the table of these types, the application's types, and the transaction manager's own types.
pub fn record_table(types: impl IntoIterator<Item = RecordType>, applications: Applications) -> RecordTable {
    RecordTable::new(record_types().into_iter().chain(types)).with(applications)
}

fn record_types() -> [RecordType; 5] {
    let nothing = |code, name, describe| RecordType {
        code,
        name,
        pages: |_| PageList::NONE,
        redo: |_, _, _, _| Ok(()),
        undo: None,
        describe,
    };
    [
        nothing(COMMIT, "commit", |body| match &segments_of(body)[..] {
            [] => String::new(),
            segments => format!("segments {segments:?}"),
        }),
        nothing(ABORT_END, "abort end", |_| String::new()),
        nothing(CHECKPOINT, "checkpoint", |body| match Checkpoint::decode(body) {
            Some(it) if it.open.is_empty() => format!("redo from {}, {} running", it.redo_point, it.running.len()),
            Some(it) => {
                format!("redo from {}, {} running, {} unresolved", it.redo_point, it.running.len(), it.open.len())
            }
            None => "unreadable".into(),
        }),
        nothing(DATABASES, "databases", databases::describe),
        nothing(LEFT, "left", left::describe),
    ]
}
