//! Segments of recoverable memory that belong to an environment, as a program holds them.
//!
//! A segment is a file of vista; its header names its environment. One handle of a process has the segment mapped, and
//! lends it to one transaction at a time: the transaction that holds the segment's lock (`joined.rs`).
//!
//! A handle keeps a byte of the segment's file locked as long as it lives. While a transaction uses the segment, the
//! segment has the handle's number. So every process can ask the kernel whether the handle still exists, even if the
//! environment's shared memory is lost.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, Weak};

use libtp_io::Uninherited;
use libtp_process::ProcessNumber;
use rio::{failpoint, planted};
use vista::{Holder, Membership, Survives};

use crate::ground::mutex::lock;
use crate::region::inner::Inner;
use crate::region::open_segment::{lock_handle_byte, OpenSegment};
use crate::{Durability, Error, Result};

/// The suffix of the names of segment files in the environment's directory.
const ENDING: &str = ".vista";
/// A segment of recoverable memory that belongs to an environment. Cloning it is cheap; all clones are one handle,
/// which any thread may use.
///
/// A transaction [joins](crate::Txn::join) a segment, and stores to it directly. The transaction's commit record then
/// decides for records and memory together.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let counter = env.segment("counter", 8)?;
/// let names = env.btree("names")?;
/// let number = env.run(|txn| {
///     let mut memory = txn.join(&counter)?;
///     let place = memory.set_range(0, 8)?;
///     let next = u64::from_le_bytes(place[..].try_into().unwrap()) + 1;
///     place.copy_from_slice(&next.to_le_bytes());
///     names.put(txn, &next.to_be_bytes(), b"a name for each number")?;
///     Ok(next)
/// })?;
/// assert_eq!(number, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Segment {
    // The environment is the first field, so that Rust drops it first.
    pub(crate) env: Arc<Inner>,
    pub(crate) open: Arc<OpenSegment>,
}

impl Segment {
    /// Opens the segment `name` of the environment, in its directory.
    pub(crate) fn named(env: &Arc<Inner>, name: &str, options: &vista::Options) -> Result<Segment> {
        let path = env.platform.path.join(format!("{name}{ENDING}"));
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            let what = format!("`{name}` cannot be the name of a file: a name is not empty, begins with no dot, and contains no slash. Nothing was changed");
            return Err(Error::Segment { path, what });
        }
        Segment::open(env, &path, options)
    }

    pub(crate) fn open(env: &Arc<Inner>, path: &Path, options: &vista::Options) -> Result<Segment> {
        env.check_process()?;
        let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        // The mutex is held to the end of this function, so that a process maps a segment only once.
        let mut segments = lock(&env.segments);
        if let Some(open) = segments.get(path).and_then(Weak::upgrade) {
            return Ok(Segment { env: Arc::clone(env), open });
        }
        let number = match path.exists() {
            true => 0,
            false => env.with_session(|managers, txn| Ok(managers.next_file_id(txn.session())?))?,
        };
        failpoint("segment: has a number, not made");
        let membership = Membership { environment: environment_id(env)?, number };
        let member = Box::new(options.open_member(path, membership)?);
        let is_given_up = !planted("libtp: a forked child keeps its parent's segment locks");
        let lock = is_given_up.then(|| Uninherited::new(member.lock()));
        failpoint("segment: open, not noted");
        let (handle, file) = lock_handle_byte(path)?;
        let refuse = |what: &str| Error::Segment { path: path.clone(), what: what.into() };
        let number = u32::try_from(member.number()).ok().filter(|&number| number != 0);
        let open = OpenSegment {
            number: number.ok_or_else(|| refuse("its number is not a number that an environment gives, so the segment is damaged. Nothing was changed; restore the segment from its last checkpoint, which lacks later transactions"))?,
            path: path.clone(),
            survives: member.survives(),
            _lock: lock,
            member: Mutex::new(Some(member)),
            holder: Holder { handle, process: ProcessNumber::this().raw() },
            row: AtomicU32::new(0),
            file,
        };
        warn_of_less_than_is_promised(&open, env.durability);
        let open = Arc::new(open);
        segments.retain(|_, open| open.strong_count() != 0);
        segments.insert(path.clone(), Arc::downgrade(&open));
        Ok(Segment { env: Arc::clone(env), open })
    }

    /// Returns the path of the segment's file.
    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// Returns the events that the segment's memory survives.
    pub fn survives(&self) -> Survives {
        self.open.survives
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.path().display())
    }
}

/// Warns if the environment's commits survive more events than the stores to this segment. No later call could report
/// this before data are lost.
fn warn_of_less_than_is_promised(segment: &OpenSegment, durability: Durability) {
    if durability == Durability::Relaxed || segment.is_lasting() {
        return;
    }
    tracing::warn!(
        segment = %segment.path.display(),
        "the environment's commits survive a crash of the machine, and this segment does not: if the machine goes down while the segment is in use, the records are kept, and the segment can no longer be opened. Keep important data in records, or put the segment on memory that survives (`Env::segment_at`)"
    );
}

fn environment_id(env: &Arc<Inner>) -> Result<[u8; 16]> {
    let generation = env.generation()?;
    let mut id = [0; 16];
    for (half, word) in id.chunks_exact_mut(8).zip(&generation.managers.region.header().environment) {
        half.copy_from_slice(&word.get().to_le_bytes());
    }
    Ok(id)
}
