//! Tests of the log alone, with a ring of small pieces that move all the time. After a restart of the machine, all kept
//! records must be found, whatever part of the cache had been written back.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_log::{
    all_in_files, lasting_of, note_lasting, record_bytes, rescue_survivor, restart, Control, ControlFile, LogManager,
    Lsn, Settings, TxnId, CONTROL_NAME,
};
use libtp_process::{ProcessManager, Session};
use libtp_sim::{LossMode, Random, SimDisk};
use libtp_tests::sizes;
use rio::{simulated_cache, Lasting, Region, Survives, WriteBack};

const KIND: u16 = 1024;
const LASTING: Lasting = Lasting { survives: Survives::System, write_back: WriteBack::Simulated };

fn settings() -> Settings {
    Settings {
        segment_bytes_first: 16 << 10,
        segment_bytes_max: 64 << 10,
        ring_chunk_bytes: 4 << 10,
        ring_bytes_max: 32 << 10,
        ring_bytes_kept: 4 << 10,
        recycled_bytes: 256 << 10,
        recycled_bytes_max: 256 << 10,
        ..Settings::default()
    }
}

fn control_file(directory: &Arc<dyn Directory>) -> ControlFile {
    ControlFile::new(directory.open(CONTROL_NAME, OpenMode::Create).unwrap(), CONTROL_NAME)
}

/// The log of a simulated machine.
struct Machine {
    disk: SimDisk,
    region: Region,
    log: LogManager,
    session: Session,
}

impl Machine {
    /// Starts the machine on `disk`, whose log ends at `end`.
    fn start(disk: SimDisk, control: &Control, end: Lsn) -> Machine {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let region = Region::anonymous(1 << 24).unwrap();
        region.set_lasting(LASTING);
        ProcessManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        LogManager::init(&region, &settings(), &directory, control, end).unwrap();
        note_lasting(&region, LASTING);
        region.settle(LASTING).unwrap();
        let log = LogManager::attach(&region, &settings(), &directory, control, &processes).unwrap();
        let session = processes.join().unwrap();
        Machine { disk, region, log, session }
    }

    /// Returns the bodies of this test's records.
    fn bodies(&self) -> Vec<Vec<u8>> {
        let records = self.log.roll(Lsn::FIRST).map(Result::unwrap);
        records.filter(|record| record.header.kind() == KIND).map(|record| record.body).collect()
    }

    fn put(&self, body: &[u8]) -> Lsn {
        self.log.reserve(&self.session, record_bytes(body.len())).unwrap();
        let lsn = self.log.log(&self.session, KIND, TxnId::new(1), Lsn::NONE, &[body]);
        self.session.clear_append();
        lsn
    }
}

#[test]
fn kept_records_are_found_after_any_loss_of_the_cache() {
    let first = sizes::first_seed();
    let (mut crashes, mut kept_in_all, mut lost_lines, mut rescued_bytes) = (0, 0, 0, 0);
    for seed in first..first + sizes::number("LIBTP_TEST_WARM", 300) {
        libtp_tests::trial::begin_seed(seed - first + 1);
        // Drops the cache of the previous seed, which would otherwise be kept as long as the process lives.
        simulated_cache::forget_closed();
        let mut random = Random::new(seed);
        let disk = SimDisk::new(seed);
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let mut control = Control::new([7; 16], &settings());
        control_file(&directory).create(&control).unwrap();
        directory.sync().unwrap();
        let mut machine = Machine::start(disk, &control, Lsn::FIRST);
        let mut logged: Vec<Vec<u8>> = Vec::new();
        for life in 0..1 + random.below(3) {
            let what = format!("seed {seed}, life {life}");
            let mut kept = logged.len();
            for number in 0..random.below(160) {
                let mut body = format!("{seed} {life} {number} ").into_bytes();
                body.resize(body.len() + random.index(600), b'.');
                let lsn = machine.put(&body);
                logged.push(body);
                match random.below(8) {
                    0..=3 => {
                        machine.log.keep(lsn);
                        kept = logged.len();
                    }
                    4 if random.chance(1, 6) => {
                        machine.log.force(&machine.session, lsn).unwrap();
                        kept = logged.len();
                    }
                    _ => {}
                }
            }
            let image = machine.disk.crash_image(LossMode::ALL[random.index(7)], random.next_u64());
            let chance = random.below(11);
            // Checks all of the region, even if memory has a header from a time when the region was smaller.
            assert!(machine.region.reaches(machine.region.size()));
            lost_lines += simulated_cache::crash(&machine.region, || random.chance(chance, 10));
            // The rescue runs twice, because a crash may interrupt the first rescue.
            let at: Arc<dyn Directory> = Arc::new(image.clone());
            let old = control_file(&at).read().unwrap();
            for _ in 0..2 {
                let rescued =
                    rescue_survivor(&machine.region, &at, &old).unwrap_or_else(|error| panic!("{what}: {error}"));
                let rescued =
                    rescued.unwrap_or_else(|| panic!("{what}: there is no log in {:?}", lasting_of(&machine.region)));
                assert!(rescued.tail.is_some_and(|tail| rescued.to >= tail), "{what}: {rescued:?}");
                rescued_bytes += rescued.to.since(rescued.from);
            }
            let restarted =
                restart(&at, &control_file(&at), &settings()).unwrap_or_else(|error| panic!("{what}: {error}"));
            control = restarted.control;
            // The rescue has written the region's log to the files. So the check accepts the region, even as a region
            // of an earlier life.
            machine.region.pretend_earlier_start();
            all_in_files(&machine.region, &at, &control).unwrap_or_else(|error| panic!("{what}: {error}"));
            machine = Machine::start(image, &control, restarted.end.end);
            let found = machine.bodies();
            assert!(found.len() >= kept, "{what}: {kept} records were kept, {} were found", found.len());
            assert!(logged.starts_with(&found), "{what}: a found record differs from the logged record");
            logged = found;
            crashes += 1;
            kept_in_all += kept;
        }
    }
    println!("figures: {crashes} crashes of a log in memory, {kept_in_all} records kept, {rescued_bytes} bytes taken from memory, {lost_lines} lines of cache lost; 0 lost, 0 torn");
}
