//! Keys of `io.l5d.fs`.

use std::path::PathBuf;
use std::sync::Arc;

use super::FsNamer;
use crate::config::{Directory, Fields};
use crate::namer::{Namer, NamerConfig, NamerParts};

/// The `io.l5d.fs` namer: one file per name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsConfig {
    /// `rootDir`: the directory, which exists when the configuration is read. A relative path starts at the working
    /// directory.
    pub root_dir: PathBuf,
}

impl FsConfig {
    /// Reads the keys. None only if a problem was reported.
    #[must_use]
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let Directory(root_dir) = fields.req("rootDir")?;
        Some(Self { root_dir })
    }
}

impl NamerConfig for FsConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        Ok(Arc::new(FsNamer::new(&self.root_dir, parts)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    #[test]
    fn the_directory_must_exist() {
        let read = |text: &str| read_text("f", text, "the io.l5d.fs namer", FsConfig::read);
        assert_eq!(read("rootDir: src").expect("valid").0, FsConfig { root_dir: "src".into() });
        let message = |text: &str| read(text).expect_err("must be refused").list()[0].message.clone();
        assert_eq!(message("rootDir: /nope"), "/nope is not a directory: there is no such thing");
        assert_eq!(message("{}"), "'rootDir' is required for the io.l5d.fs namer");
    }
}
