//! The files that a command line names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::failure::Failure;

/// Bytes taken of a file: a dtab of the greatest size, with room for JSON.
const LARGEST: u64 = 64 << 20;

/// Whether the file is standard input.
pub(super) fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// What messages call the file.
pub(super) fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

/// The text of the file.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let cannot = |error: io::Error| Failure::other(format_args!("cannot read {}: {error}", name(file)));
    let bytes = if is_stdin(file) {
        read_bounded(io::stdin().lock())
    } else if fs::metadata(file).is_ok_and(|about| about.is_dir()) {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        File::open(file).and_then(read_bounded)
    };
    String::from_utf8(bytes.map_err(cannot)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::other(format_args!("{} is not UTF-8 text: see byte {at}", name(file)))
    })
}

fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("more than {LARGEST} bytes")));
    }
    Ok(bytes)
}
