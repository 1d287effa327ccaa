//! A log that ends exactly where an old record begins (PROTOCOLS L1).
//!
//! A crash tears a record out of the last flush and leaves the records behind it on the disk. Restart ends the log at the
//! hole; then new records are logged that fill it to the byte. What lies behind them was logged in an earlier life and must
//! stay dead: its commits were never acknowledged, and what they built on is gone.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_log::{
    record_bytes, restart, Control, ControlFile, LogManager, Lsn, Restarted, Settings, TxnId, CONTROL_NAME,
};
use libtp_process::{ProcessManager, Session};
use libtp_sim::{LossMode, SimDisk};
use rio::Region;

/// A record type of the test's own.
const KIND: u16 = 1024;
/// Bytes of the body that is torn out: some sectors.
const TORN_BODY: usize = 6000;

/// One life of the log: the region, and a session that appends.
struct Life {
    log: LogManager,
    session: Session,
}

impl Life {
    fn begin(disk: &SimDisk) -> Result<Life, String> {
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
        Ok(Life { log, session: processes.join().map_err(text)? })
    }

    fn append(&self, body: &[u8]) -> Result<Lsn, String> {
        self.log.reserve(&self.session, record_bytes(body.len())).map_err(text)?;
        let lsn = self.log.log(&self.session, KIND, TxnId::new(1), Lsn::NONE, &[body]);
        self.session.clear_append();
        Ok(lsn)
    }

    fn force(&self) -> Result<(), String> {
        self.log.force_all(&self.session).map(|_| ()).map_err(text)
    }

    fn bodies(&self) -> Result<Vec<Vec<u8>>, String> {
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

/// Tears, fills the hole, crashes again, and looks what came back.
///
/// # Errors
/// A record of an earlier life is in the log, or one of this life is not.
pub fn stale_records_stay_dead(seed: u64) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let life = Life::begin(&disk)?;
    life.append(b"kept")?;
    life.force()?;
    life.append(&[b't'; TORN_BODY])?;
    life.append(b"stale")?;
    let before_sync = disk.io_index() + 1;
    life.force()?;
    for attempt in 0..200 {
        let torn = disk.image_at(before_sync, LossMode::Torn512, seed << 16 | attempt);
        let life = Life::begin(&torn)?;
        if life.bodies()?.len() != 1 {
            continue;
        }
        // The flush ends with a mark, which fills the rest of the hole.
        let mark_bytes = record_bytes(8);
        life.append(&[b'n'; TORN_BODY].as_slice()[mark_bytes..])?;
        life.force()?;
        let life = Life::begin(&torn.crash_image(LossMode::DropAll, seed))?;
        let bodies = life.bodies()?;
        if bodies.len() != 2 {
            let found: Vec<usize> = bodies.iter().map(Vec::len).collect();
            return Err(format!("STALE: records of {found:?} bytes are in the log, where two belong"));
        }
    }
    Ok(())
}
