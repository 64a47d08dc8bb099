//! The `isles` command.
fn main() {}
