//! A log without the other managers, on a simulated disk, with one session that appends.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_log::{
    record_bytes, restart, Control, ControlFile, LogManager, Lsn, Restarted, Settings, TxnId, CONTROL_NAME,
};
use libtp_process::{ProcessManager, Session};
use libtp_sim::SimDisk;
use rio::Region;

/// A record type of this test.
const KIND: u16 = 1024;

/// The log between two restarts: the log manager in its region, and a session that appends.
pub struct LoneLog {
    log: LogManager,
    session: Session,
}

impl LoneLog {
    /// Opens the log on the disk, as after a restart.
    ///
    /// # Errors
    /// An error of the log.
    pub fn begin(disk: &SimDisk) -> Result<LoneLog, String> {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let settings = Settings { segment_bytes_first: 64 << 10, ..Settings::default() };
        let file = directory.open(CONTROL_NAME, OpenMode::Create).map_err(text)?;
        let is_new = file.is_empty().map_err(text)?;
        let control_file = ControlFile::new(file, CONTROL_NAME);
        if is_new {
            control_file.create(&Control::new([7; 16], &settings)).map_err(text)?;
            directory.sync().map_err(text)?;
        }
        let Restarted { control, end } = restart(&directory, &control_file, &settings).map_err(text)?;
        let region = Region::anonymous(1 << 26).map_err(text)?;
        ProcessManager::init(&region).map_err(text)?;
        LogManager::init(&region, &settings, &directory, &control, end.end).map_err(text)?;
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).map_err(text)?;
        let log = LogManager::attach(&region, &settings, &directory, &control, &processes).map_err(text)?;
        Ok(LoneLog { log, session: processes.join().map_err(text)? })
    }

    /// Appends a record with this body.
    ///
    /// # Errors
    /// An error of the log.
    pub fn append(&self, body: &[u8]) -> Result<Lsn, String> {
        self.log.reserve(&self.session, record_bytes(body.len())).map_err(text)?;
        let lsn = self.log.log(&self.session, KIND, TxnId::new(1), Lsn::NONE, &[body]);
        self.session.clear_append();
        Ok(lsn)
    }

    /// Waits until all records are durable.
    ///
    /// # Errors
    /// An error of the log.
    pub fn force(&self) -> Result<(), String> {
        self.log.force_all(&self.session).map(|_| ()).map_err(text)
    }

    /// Returns the bodies of the test's records in the log, the oldest first.
    ///
    /// # Errors
    /// An error of the log.
    pub fn bodies(&self) -> Result<Vec<Vec<u8>>, String> {
        let ours = |record: libtp_log::Result<libtp_log::Record>| match record {
            Ok(record) if record.header.kind() == KIND => Some(Ok(record.body)),
            Ok(_) => None,
            Err(error) => Some(Err(text(error))),
        };
        self.log.roll(Lsn::FIRST).filter_map(ours).collect()
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
