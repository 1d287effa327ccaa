//! Room in memory for the lines of a dump. A line may be longer than the memory that the process may take.

/// Makes room for `more` bytes: the length of a line and of its datum is the dump's choice.
///
/// # Errors
/// A message about the missing memory.
pub fn make_room(to: &mut Vec<u8>, more: usize) -> Result<(), String> {
    to.try_reserve(more).map_err(|_| {
        let bytes = to.len() + more;
        format!("this process has no memory for the {bytes} bytes of the line. Raise the limit of its memory (`ulimit -v`), or dump shorter values")
    })
}
