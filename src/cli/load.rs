//! From the files that a command line names to a checked configuration.

use std::io::{self, Read};
use std::path::Path;

use super::failure::Failure;
use crate::app::Config;
use crate::config::{Problems, Warning};

/// Bytes taken of a file.
const LARGEST: u64 = 64 << 20;

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

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// What messages call the file.
fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path) -> Result<String, Unloaded> {
    let read = |from: &mut dyn Read| -> io::Result<String> {
        let mut text = String::new();
        from.take(LARGEST + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LARGEST {
            return Err(io::Error::other(format!("more than {LARGEST} bytes")));
        }
        Ok(text)
    };
    let text = if is_stdin(file) {
        read(&mut io::stdin().lock())
    } else if std::fs::metadata(file).is_ok_and(|about| about.is_dir()) {
        // namerd's words. A pipe is fine here, though.
        return Err(Unloaded::Unreadable(Failure::other(format_args!("config is not a file: {}", file.display()))));
    } else {
        std::fs::File::open(file).and_then(|mut file| read(&mut file))
    };
    text.map_err(|error| Unloaded::Unreadable(Failure::other(format_args!("cannot read {}: {error}", name(file)))))
}
