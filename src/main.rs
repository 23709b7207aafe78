//! The `cachelift` command.

fn main() {}
