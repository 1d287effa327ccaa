//! The inputs with which a fuzzer starts: real pages, log records, logs, control files, dumps and settings, which this
//! version of the library makes.
//!
//! `cargo run -p libtp-fuzz --example seeds` writes them into `corpus/`. Later versions of the library keep the inputs
//! that are there.

use libtp_log::RECORD_HEADER_BYTES;

use crate::input::Random;
use crate::world::World;
use crate::{control, log_file, log_record};

/// The inputs of a target, each with a name.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// The offset in a page at which an input's bytes begin.
const PAGE_AT: usize = 20;
/// The highest bit of an input's first byte. It is set if the input changes the existing page. The other bits name the
/// scene.
const CHANGED: u8 = 0x80;

/// Returns whole pages, and small changes of pages.
pub fn pages(world: &World) -> Seeds {
    let mut seeds = Seeds::new();
    let byte = |number: usize| u8::try_from(number).expect("the small environment is small");
    for (which, scene) in world.scenes.iter().enumerate() {
        let mut kinds = Vec::new();
        for (number, page) in scene.pages.iter().enumerate().skip(1) {
            let message = (page[PAGE_AT], page[PAGE_AT + 1], page.iter().filter(|&&byte| byte == 0).count() / 1500);
            if kinds.contains(&message) || page[PAGE_AT] == 0 {
                continue;
            }
            kinds.push(message);
            seeds.push((format!("{}-{number}", scene.name), whole(byte(which), byte(number), page)));
        }
        let mut random = Random::new(which as u64 + 1);
        for number in 1..scene.pages.len().min(4) {
            let mut input = vec![CHANGED | byte(which), byte(number), 3];
            for _ in 0..2 {
                // The offset is mostly in the header of a page.
                let at = u16::try_from(random.below(60)).expect("the number is below sixty");
                input.extend_from_slice(&at.to_le_bytes());
                input.extend_from_slice(&[0, random.number().to_le_bytes()[0]]);
            }
            seeds.push((format!("{}-{number}-changed", scene.name), input));
        }
    }
    seeds
}

/// Encodes a page as an input, without the page's longest run of zeros.
fn whole(scene: u8, number: u8, page: &[u8]) -> Vec<u8> {
    let bytes = &page[PAGE_AT..];
    let (mut best, mut run) = (0..0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        run = if byte == 0 { run + 1 } else { 0 };
        if run > best.len() {
            best = at + 1 - run..at + 1;
        }
    }
    let front = u16::try_from(best.start).expect("a page is short");
    [&[scene, number, 1][..], &front.to_le_bytes(), &bytes[..best.start], &bytes[best.end..]].concat()
}

/// The bits of the previous record's LSN in the last eight bytes of a header.
const PREV_BITS: u64 = (1 << 55) - 8;

/// Returns the offset and the bytes of each record of a log.
fn records(log: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(length) = log.get(at..).and_then(log_file::record_length) {
        let Some(record) = log.get(at..at + length) else { break };
        found.push((at, record));
        at += length;
    }
    found
}

fn kind(record: &[u8]) -> u16 {
    u16::from_le_bytes([record[4], record[5]])
}

/// Returns some records of each type.
pub fn log_records(world: &World) -> Seeds {
    let log = log_file::log_of(world);
    let mut seeds = Seeds::new();
    let mut counts = std::collections::BTreeMap::<u16, u32>::new();
    for (at, record) in records(&log) {
        let count = counts.entry(kind(record)).or_default();
        if *count >= 2 || record.len() > 2_500 {
            continue;
        }
        *count += 1;
        let is_clr = record[16] & 1 != 0;
        let body = &record[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + log_file::body_length(record)];
        let body = &body[if is_clr { 8 } else { 0 }..];
        let record_type = world.managers.types.get(kind(record));
        let name = record_type.map_or("other", |it| it.name).replace(' ', "-");
        let id = record_type.and_then(|it| (it.pages)(body).iter().next()).map(|(_, id)| id);
        let file = world.scenes.iter().position(|scene| id.is_some_and(|id| id.file() == scene.file));
        let scene = u8::try_from(file.unwrap_or(0)).expect("there are few");
        let page = id.map_or(0, |id| id.page().raw().to_le_bytes()[0]);
        seeds.push((format!("{name}-{at}"), log_record::encode(kind(record), scene, page, 0, body)));
    }
    seeds
}

/// Returns pieces of the log, from its beginning and from its middle. The links between the records of a piece are
/// adjusted to their new LSNs.
pub fn logs(world: &World) -> Seeds {
    const BYTES: usize = 3_000;
    let log = log_file::log_of(world);
    let records = records(&log);
    let mut seeds = vec![("empty".to_owned(), log_file::encode(true, true, 1, 0, &[]))];
    let mut begin = 0;
    while begin < records.len() && seeds.len() < 20 {
        let (from, mut piece) = (records[begin].0, Vec::new());
        let mut next = begin;
        while next < records.len() && piece.len() + records[next].1.len() <= BYTES {
            let mut record = records[next].1.to_vec();
            let link = u64::from_le_bytes(record[16..24].try_into().expect("eight bytes"));
            let prev = link & PREV_BITS;
            let link = link - prev + prev.saturating_sub(from as u64);
            record[16..24].copy_from_slice(&link.to_le_bytes());
            piece.extend_from_slice(&record);
            next += 1;
        }
        if !piece.is_empty() {
            seeds.push((format!("from-{from}"), log_file::encode(true, from == 0, 1, 0, &piece)));
        }
        // Skips some records: this log has many similar page splits.
        begin = next.max(begin + 1) + records.len() / 40;
    }
    seeds
}

/// Returns a new environment's slot, a slot with arbitrary contents, and a slot with further blocks.
pub fn controls() -> Seeds {
    let first = control::first_slot();
    let mut cut = first.clone();
    cut.truncate(124);
    let mut full = cut.clone();
    full[0] = 7;
    full.extend_from_slice(&[1; 64]);
    vec![("new".to_owned(), cut), ("full".to_owned(), full), ("many".to_owned(), control::slot_of_many(500))]
}

/// Returns dumps of each kind.
pub fn dumps() -> Seeds {
    let seed = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    vec![
        seed("btree", "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 61\n 785c790a\n 62\n \n ff00\n 00\nDATA=END\n"),
        seed("print", "VERSION=3\nformat=print\ntype=hash\nh_nelem=1\nHEADER=END\n k\\\\\n \\00v\\ff\n new\n 2\nDATA=END\n"),
        seed("sorted", "VERSION=3\nformat=bytevalue\ntype=btree\nduplicates=1\ndupsort=1\nlibtp_order=u64\nHEADER=END\n 61\n 01\n 61\n 02\nDATA=END\n"),
        seed("as-they-came", "VERSION=2\nformat=print\ntype=btree\nduplicates=1\ndb_pagesize=4096\nHEADER=END\n a\n 2\n a\n 1\nDATA=END\n"),
        seed("recno", "VERSION=3\nformat=bytevalue\ntype=recno\nre_len=2\nHEADER=END\n 6162\n 6364\nDATA=END\n"),
        seed("queue", "VERSION=3\nformat=print\ntype=queue\nre_len=3\nkeys=1\nHEADER=END\n 1\n abc\n 5\n def\nDATA=END\n"),
        seed("list", "VERSION=3\nformat=bytevalue\ntype=recno\nrenumber=1\nHEADER=END\n 66\n \n 746869\nDATA=END\n"),
        seed("list-keys", "VERSION=3\nformat=print\ntype=recno\nrenumber=1\nkeys=1\nHEADER=END\n 1\n one\n 18446744073709551615\n two\nDATA=END\n"),
        seed("own-order", "VERSION=3\nformat=bytevalue\ntype=btree\nlibtp_order=by-length\nlibtp_keys=stored\nHEADER=END\n 0162\n 01\n 026161\n \nDATA=END\n"),
        seed("own-order-several", "VERSION=3\nformat=print\ntype=btree\nduplicates=1\ndupsort=1\nlibtp_order=a\\0ab\\\\c\nlibtp_keys=stored\nHEADER=END\n \\01b\n 1\n \\01b\n 2\nDATA=END\n"),
        seed("pages", &format!("VERSION=3\nformat=bytevalue\ntype=libtp_pages\ndb_pagesize=4096\nHEADER=END\n 30\n {}\n 31\n \n 32\n \nDATA=END\n", "70a1".repeat(2_032))),
        seed("pages-print", &format!("VERSION=3\nformat=print\ntype=libtp_pages\ndb_pagesize=8192\nHEADER=END\n 0\n \n 1\n {}\nDATA=END\n", "\\00".repeat(8_160))),
        seed("pages-missing", "VERSION=3\nformat=print\ntype=libtp_pages\ndb_pagesize=65536\nHEADER=END\n 0\n \n 2\n \nDATA=END\n"),
        seed("long-key", &format!("VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n {}\n 00\nDATA=END\n", "6b".repeat(2_000))),
        seed("two", "VERSION=3\ntype=btree\nHEADER=END\n 61\n 62\nDATA=END\nVERSION=3\ntype=btree\nHEADER=END\nDATA=END\n"),
        seed("cut", "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 61\n"),
        seed("no-dump", "key value\n"),
    ]
}

/// Returns settings files.
pub fn settings() -> Seeds {
    let seed = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    vec![
        seed("bytes", "64MiB"),
        seed("memory", "memory = \"64MiB\"\nlog_delay = 4096\n"),
        seed("all", "log_directory = \"/log\"\nmemory = \"1GiB\"\ndurability = \"rio\"\nreplacement = \"lru\"\nrelaxed_millis = 5\ngroup_threshold = 3\nwait_threshold_percent = 50\nlog_delay = \"256 KiB\"\nlog_segment_first = \"16K\"\nlog_segment_max = \"1M\"\ncheckpoint_log = \"1G\"\nsnapshot_log = \"4GiB\"\nsnapshot_age_millis = 1000\nkeep_log = 0\nrecovery_threads = 2\nlock_timeout_millis = 100\ndeadlock_period_millis = 10\ndetached_timeout_millis = 10\nvictim = \"fewest-log-bytes\"\nlanes = 4\nregion_directory = \"/dev/shm\"\nregion_survives = \"power\"\nno_background = true\n"),
        seed("database", "durability = \"relaxed\"\n[database.accounts]\ngranularity = \"page\"\npage_bytes = \"16KiB\"\ndense = true\nown_pool = \"8MiB\"\n[database.\"a b\"]\n"),
        seed("unknown", "memry = 3\n"),
        seed("unit", "memory = \"3 parsecs\"\n"),
        seed("durability", "durability = \"eventually\"\n"),
        seed("survives", "region_survives = \"nothing\"\n"),
        seed("cut", "memory = ["),
        seed("negative", "memory = -1\nrelaxed_millis = -1\n"),
        seed("great", "relaxed_millis = 18446744073709551615\nmemory = \"18446744073709551615\"\n"),
        seed("empty", ""),
    ]
}
