//! The progress of a long call, as its caller sees it.

/// A progress report of a long call: an opening that replays the log, a backup, a restore, a load or a salvage.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop");
/// let env = libtp::Env::builder().open_watched(&path, &mut |progress| {
///     println!("{}: {} of {}", progress.step, progress.done, progress.total);
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The name of the current step, in one word.
    pub step: &'static str,
    /// The amount done of the step, in the step's unit: bytes, pages or records.
    pub done: u64,
    /// The whole amount; zero if it is unknown.
    pub total: u64,
}

impl Progress {
    pub(crate) fn new(step: &'static str, done: u64, total: u64) -> Progress {
        Progress { step, done, total }
    }
}

/// The function that a long call calls from time to time with its progress.
pub type Watch<'w> = dyn FnMut(Progress) + 'w;

/// Returns a function that reports to `watch`, in the form that the lower crates call.
pub(crate) fn reporting<'w, 'f>(watch: &'w mut Watch<'f>) -> impl FnMut(&'static str, u64, u64) + use<'w, 'f> {
    |step, done, total| watch(Progress::new(step, done, total))
}
