//! An environment that has only a log.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_process::{ProcessManager, Session};
use libtp_sim::{LossMode, SimDisk};
use rio::Region;

use crate::{
    record_bytes, restart, segment_name, Control, ControlFile, LogManager, Lsn, Restarted, Result, Settings, TxnId,
    CONTROL_NAME, KEPT_BACK_BYTES,
};

/// A simulated process's view of the environment.
pub(super) struct Side {
    pub(super) log: LogManager,
    pub(super) session: Session,
    pub(super) processes: ProcessManager,
}

impl Side {
    /// Reserves and appends one record of kind 1024.
    pub(super) fn put(&self, body: &[u8]) -> Lsn {
        self.try_put(body).expect("there is room")
    }

    pub(super) fn try_put(&self, body: &[u8]) -> Result<Lsn> {
        self.log.reserve(&self.session, record_bytes(body.len()))?;
        let lsn = self.log.log(&self.session, 1024, TxnId::new(1), Lsn::NONE, &[body]);
        self.session.clear_append();
        Ok(lsn)
    }

    /// Reserves, appends and forces.
    pub(super) fn commit(&self, body: &[u8]) -> Result<Lsn> {
        self.log.reserve(&self.session, record_bytes(body.len()))?;
        self.log.log_commit(&self.session, 1024, TxnId::new(1), Lsn::NONE, &[body])
    }

    /// The bodies of all records of kind 1024.
    pub(super) fn bodies(&self, from: Lsn) -> Vec<Vec<u8>> {
        self.log
            .roll(from)
            .map(|record| record.expect("whole"))
            .filter(|r| r.header.kind() == 1024)
            .map(|r| r.body)
            .collect()
    }
}

pub(super) struct Rig {
    pub(super) disk: SimDisk,
    pub(super) directory: Arc<dyn Directory>,
    pub(super) region: Region,
    pub(super) control: Control,
    pub(super) settings: Settings,
    /// Two processes, which have mapped the region at different addresses.
    pub(super) one: Side,
    pub(super) two: Side,
}

/// Small segments and chunks, so that a test crosses their borders quickly.
pub(super) fn small() -> Settings {
    Settings {
        segment_bytes_first: 16 << 10,
        segment_bytes_max: 64 << 10,
        ring_chunk_bytes: 4 << 10,
        ring_bytes_max: 512 << 10,
        ring_bytes_kept: 8 << 10,
        recycled_bytes: (256 << 10) + KEPT_BACK_BYTES,
        recycled_bytes_max: (256 << 10) + KEPT_BACK_BYTES,
        ..Settings::default()
    }
}

pub(super) fn control_file(directory: &Arc<dyn Directory>) -> ControlFile {
    ControlFile::new(directory.open(CONTROL_NAME, OpenMode::Create).expect("a disk"), CONTROL_NAME)
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::on(SimDisk::new(1), small())
    }

    /// A new environment.
    pub(super) fn on(disk: SimDisk, settings: Settings) -> Rig {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let control = Control::new([7; 16], &settings);
        control_file(&directory).create(&control).expect("a disk with room");
        directory.sync().expect("a disk");
        Rig::at(disk, settings, control, Lsn::FIRST).expect("a disk with room")
    }

    /// A region on a log that ends at `end`.
    pub(super) fn at(disk: SimDisk, settings: Settings, control: Control, end: Lsn) -> Result<Rig> {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        Rig::through(disk, directory, settings, control, end)
    }

    /// Like [`Rig::at`], but the log uses `disk` through `directory`.
    pub(super) fn through(
        disk: SimDisk,
        directory: Arc<dyn Directory>,
        settings: Settings,
        control: Control,
        end: Lsn,
    ) -> Result<Rig> {
        let region = Region::anonymous(1 << 30).expect("memory");
        ProcessManager::init(&region).expect("memory");
        LogManager::init(&region, &settings, &directory, &control, end)?;
        let side = || {
            let region = region.map_again().expect("memory");
            let processes = ProcessManager::attach(&region, &Default::default()).expect("memory");
            let session = processes.join().expect("memory");
            let log = LogManager::attach(&region, &settings, &directory, &control, &processes).expect("no other user");
            Side { log, session, processes }
        };
        let (one, two) = (side(), side());
        Ok(Rig { disk, directory, region, control, settings, one, two })
    }

    /// Another process that attaches.
    pub(super) fn another(&self) -> Side {
        self.another_with(&self.settings)
    }

    /// Another process, with other settings.
    pub(super) fn another_with(&self, settings: &Settings) -> Side {
        let region = self.region.map_again().expect("memory");
        let processes = ProcessManager::attach(&region, &Default::default()).expect("memory");
        let session = processes.join().expect("memory");
        let log = LogManager::attach(&region, settings, &self.directory, &self.control, &processes);
        Side { log: log.expect("no other user"), session, processes }
    }

    /// Restarts with a new region: all processes and the old region are gone, and only `disk` is left.
    pub(super) fn restart_on(disk: SimDisk, settings: Settings) -> Result<(Rig, Restarted)> {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let found = restart(&directory, &control_file(&directory), &settings)?;
        let rig = Rig::at(disk, settings, found.control.clone(), found.end.end)?;
        Ok((rig, found))
    }
}

/// Damages the first byte of a record in its file.
pub(super) fn flip(rig: &Rig, lsn: Lsn) {
    let place = rig.one.log.files.geometry().locate(lsn);
    let name = segment_name(place.segment);
    let old = rig.disk.file_bytes(&name).unwrap()[place.offset as usize];
    rig.disk.damage(&name, place.offset, &[old ^ 0x10]);
}

/// Writes the control file as a checkpoint or a clean close would.
pub(super) fn checkpoint(rig: &Rig, is_clean: bool) {
    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let file = control_file(&directory);
    let mut control = file.read().unwrap();
    control.durable_end = rig.one.log.durable();
    control.clean = is_clean;
    file.write(&control).unwrap();
}

/// Appends and forces `count` records; returns their LSNs.
pub(super) fn fill(rig: &Rig, count: usize, bytes: usize) -> Vec<Lsn> {
    (0..count).map(|number| rig.one.commit(&vec![number as u8; bytes]).unwrap()).collect()
}

/// Returns the disk as a crash that loses nothing leaves it.
pub(super) fn image(rig: &Rig) -> SimDisk {
    rig.disk.crash_image(LossMode::KeepAll, 1)
}
