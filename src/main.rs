//! The `rosterd` program.

use std::process::ExitCode;

/// Gives memory back to the system where a fleet of short-lived watches would leave the default one with holes.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    rosterd::cli::main(std::env::args_os())
}
