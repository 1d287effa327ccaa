//! The `tp` command.
fn main() {}
