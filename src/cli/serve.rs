//! `rosterd CONFIG`: from the configuration to a serving process.

use std::path::Path;

use super::failure::Failure;
use super::load::load;
use super::output::Output;

/// Serves until the process is told to end.
pub(super) fn run(config: &Path, with: Option<&Path>, output: &mut Output<'_>) -> Result<(), Failure> {
    let (_config, warnings) = load(config, with)?;
    for warning in warnings {
        output.say(format_args!("warning: {warning}"));
    }
    Err(Failure::other("serving is not built yet"))
}
