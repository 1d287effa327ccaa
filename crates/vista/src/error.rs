//! Errors of segments. Each message states which data is safe and what to do.

use std::path::PathBuf;

/// A call on a segment was refused. The call changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory of the segment could not be made, opened or enlarged.
    #[error(transparent)]
    Memory(#[from] rio::Error),
    /// The segment has no such bytes.
    #[error("the {bytes} bytes at {at} of the segment {path} cannot be changed: a change must be inside the first {size} bytes, or inside allocated memory. Nothing was changed")]
    OutOfRange {
        /// The segment's file.
        path: PathBuf,
        /// Where the range begins.
        at: u64,
        /// The length of the range.
        bytes: u64,
        /// The length of the segment's flat part.
        size: u64,
    },
    /// The memory to be freed is not allocated, or no block begins at that place.
    #[error("no allocated memory begins at {at} of the segment {path}. Nothing was freed, and the transaction can continue; free memory at the position that its allocation returned, and only once")]
    NotAllocated {
        /// The segment's file.
        path: PathBuf,
        /// The position to be freed.
        at: u64,
    },
    /// A value of the type cannot begin at the position.
    #[error("a value that must begin at a multiple of {align} cannot begin at {at} of the segment {path}: the pointer is of another type or segment, or damaged. Nothing was changed")]
    Misplaced {
        /// The segment's file.
        path: PathBuf,
        /// The pointer's position.
        at: u64,
        /// The alignment that the position must have.
        align: usize,
    },
    /// The length of the segment's flat part differs from the length that the caller asked for.
    #[error("the segment {path} was made with {found} bytes, and cannot be opened with {wanted}. Nothing was changed; open it with the size 0, which stands for its present size")]
    OtherSize {
        /// The segment's file.
        path: PathBuf,
        /// The length of its flat part.
        found: u64,
        /// The length asked for.
        wanted: u64,
    },
    /// The flat part cannot become that long.
    #[error("the flat part of the segment {path} was made to grow to at most {most} bytes, and cannot have {wanted}. Nothing was changed; allocate memory from the segment's heap, or make a larger segment (`Options::grows_to`)")]
    NoRoom {
        /// The segment's file.
        path: PathBuf,
        /// The length asked for.
        wanted: u64,
        /// The greatest possible length of the flat part.
        most: u64,
    },
    /// This process uses the segment's addresses for other memory.
    #[error("the segment {path} must be mapped at address {address:#x}, where this process has other memory: {source}. Nothing was changed. If the segment has no pointers in it, open it at any address (`Options::anywhere`)")]
    AddressTaken {
        /// The segment's file.
        path: PathBuf,
        /// The segment's address.
        address: u64,
        /// The kernel's error.
        source: rio::Error,
    },
    /// Another thread of this process has a lock of the range, or the heap's lock.
    #[error("another thread of this process has locked the memory at {at} of the segment {path}. Nothing was changed by this call; abort the transaction, and run it again (`Worker::run` does that)")]
    Contended {
        /// The segment's file.
        path: PathBuf,
        /// The position wanted; 0 for the heap.
        at: u64,
    },
    /// Another worker of this process keeps the range.
    #[error("another worker of this process keeps the memory at {at} of the segment {path} until that worker is dropped. Nothing was changed by this call; abort the transaction, drop that worker, and run the transaction again (`Worker::run` does not wait for the drop)")]
    Kept {
        /// The segment's file.
        path: PathBuf,
        /// The position wanted.
        at: u64,
    },
    /// A guarded segment can be used by one thread only.
    #[error("the segment {path} is guarded against stores outside of transactions, so only one thread can use it. The segment was closed, and nothing was changed; open it without a guard")]
    Guarded {
        /// The segment's file.
        path: PathBuf,
    },
    /// The segment's own structures are damaged.
    #[error("the segment {path} is damaged: {what}. Nothing was changed; restore it from its last checkpoint, which lacks later transactions")]
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// The damage that was found.
        what: String,
    },
    /// The segment belongs to an environment, and was opened without it.
    #[error("the segment {path} belongs to the environment with the id {environment}, whose log decides about unfinished transactions of the segment. Nothing was changed; open it through that environment (`libtp::Env::segment`)")]
    Belongs {
        /// The segment's file.
        path: PathBuf,
        /// The environment's id.
        environment: String,
    },
    /// The segment belongs to no environment, and was opened by an environment.
    #[error("the segment {path} was made without an environment and cannot be opened by one. Nothing was changed; open it without an environment (`vista::Segment::open`), or give the environment's segment another name")]
    Alone {
        /// The segment's file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("the segment {path} cannot be used: {call} failed: {source}. Check the limits of this process, and open the segment again")]
    System {
        /// The segment's file.
        path: PathBuf,
        /// The call.
        call: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The result of calls on a segment.
pub type Result<T, E = Error> = std::result::Result<T, E>;
