//! The `rosterd` program.

fn main() {}
