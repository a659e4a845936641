//! `rosterd CONFIG`: from the configuration to a serving process.

use std::path::Path;

use super::args::LogFormat;
use super::failure::Failure;
use super::load::load;
use super::output::Output;
use crate::app::{self, Start};
use crate::runtime::{handover, logs};

/// Serves until the process is told to end; its exit status.
pub(super) fn run(
    (config, with): (&Path, Option<&Path>),
    take_over: bool,
    (format, level): (LogFormat, &str),
    output: &mut Output<'_>,
) -> Result<u8, Failure> {
    // Before there are threads.
    let activated = handover::activated().map_err(Failure::other)?;
    let (config, warnings) = load(config, with)?;
    if take_over && config.own.state_dir.is_none() {
        return Err(Failure::other("--take-over needs `stateDir`: that is where the running process is asked"));
    }
    let format = match format {
        LogFormat::Text => logs::Format::Text,
        LogFormat::Json => logs::Format::Json,
    };
    let level = level.parse().map_err(Failure::other)?;
    output.flush()?;
    let logs = logs::init(format, level).map_err(Failure::other)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(u8::from(!app::run(config, logs, Start { take_over, activated })))
}
