//! What an error of a library comes down to.

use std::error::Error;

/// The innermost cause, which is what the system said.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
