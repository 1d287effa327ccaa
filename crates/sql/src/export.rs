//! `tp sql --export`: copies one snapshot of a database into a new SQLite file. Other processes may write meanwhile.
//!
//! If we are killed here: `FILE.exporting` remains. The next export to `FILE` removes the remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::Output;

use crate::import::{beside, sync_directory};
use crate::interrupts::{Interrupts, Work};
use crate::names::{self, Access};
use crate::{comparison, copy, sentence};

/// Exports the database `name` to the new file `file`.
pub fn run(name: &Path, file: &Path, wait: Duration, output: &mut Output) -> Result<Ending> {
    let interrupts = Interrupts::default();
    interrupts.listen(Work::Copy)?;
    let shown = file.display();
    if fs::symlink_metadata(file).is_ok() {
        return Err(Failure::Failed(format!("{shown} exists; nothing was changed")));
    }
    let from = interrupts.while_opening(|| names::open(name, Access::Write, wait))?;
    // The transaction makes all reads see one snapshot.
    from.execute_batch("BEGIN").map_err(sentence)?;
    let unfinished = UnfinishedFile(beside(file, ".exporting"));
    unfinished.clear();
    let to = names::open(Path::new(&(names::uri(&unfinished.0, false) + "?tp=0")), Access::Create, wait)?;
    let (tables, rows) = {
        let _running = interrupts.while_running(&[&from, &to]);
        let copied = copy::copy(&from, &to, output.may_draw())?;
        comparison::check(&from, &to, &copied)?;
        (copied.len(), copied.iter().map(|(_, sum)| sum.rows).sum::<u64>())
    };
    to.close().map_err(|(_, error)| sentence(error))?;
    let moved = fs::rename(&unfinished.0, file).and_then(|()| sync_directory(file));
    moved.map_err(Failure::doing(format!("rename {} to {shown}", unfinished.0.display())))?;
    output.object(&serde_json::json!({ "exported": file, "tables": tables, "rows": rows }))?;
    output.line(format!("{shown} has the {rows} rows of the {tables} tables of {}", name.display()))?;
    Ok(Ending::Done)
}

/// The temporary path of the new file. Dropping this value removes the file.
struct UnfinishedFile(PathBuf);

impl UnfinishedFile {
    fn clear(&self) {
        for file in ["", "-journal"] {
            let _ = fs::remove_file(beside(&self.0, file));
        }
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        self.clear();
    }
}
