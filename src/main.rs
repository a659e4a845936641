//! The `rosterd` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    rosterd::cli::main(std::env::args_os())
}
