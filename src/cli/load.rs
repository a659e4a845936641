//! From the files that a command line names to a checked configuration.

use std::path::Path;

use super::failure::Failure;
use super::files::{self, is_stdin, name};
use crate::app::Config;
use crate::config::{Problems, Warning};

/// Why there is no configuration.
pub(super) enum Unloaded {
    /// A file cannot be read.
    Unreadable(Failure),
    /// What is in them is wrong.
    Wrong(Problems),
}

impl From<Unloaded> for Failure {
    fn from(unloaded: Unloaded) -> Self {
        match unloaded {
            Unloaded::Unreadable(failure) => failure,
            Unloaded::Wrong(problems) => Self::Text(problems.to_string()),
        }
    }
}

/// Reads the configuration, and the second file if there is one.
pub(super) fn load(config: &Path, with: Option<&Path>) -> Result<(Config, Vec<Warning>), Unloaded> {
    if with.is_some_and(|with| is_stdin(with) && is_stdin(config)) {
        let message = "standard input can be one of the two files only";
        return Err(Unloaded::Unreadable(Failure::other(message)));
    }
    let text = read(config)?;
    let with = with.map(|file| Ok((name(file), read(file)?))).transpose()?;
    let with = with.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    Config::load(&name(config), &text, with).map_err(Unloaded::Wrong)
}

fn read(file: &Path) -> Result<String, Unloaded> {
    if std::fs::metadata(file).is_ok_and(|about| about.is_dir()) {
        // namerd's words. A pipe is fine here, though.
        return Err(Unloaded::Unreadable(Failure::other(format_args!("config is not a file: {}", file.display()))));
    }
    files::read(file).map_err(Unloaded::Unreadable)
}
