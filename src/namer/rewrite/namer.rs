//! The namer: pattern in, name out.

use std::sync::Arc;

use super::{Pattern, RewriteConfig};
use crate::name::{Addr, NameTree, Path};
use crate::namer::{Found, Namer, NamerConfig, NamerParts};
use crate::store::{Reading, Run};

#[derive(Debug)]
struct RewriteNamer {
    pattern: Pattern,
    name: String,
}

impl NamerConfig for RewriteConfig {
    fn build(&self, parts: &NamerParts) -> Result<Arc<dyn Namer>, String> {
        let pattern = Pattern::parse(&self.pattern)
            .map_err(|error| format!("`pattern` of the namer {}: {error}", parts.prefix))?;
        Ok(Arc::new(RewriteNamer { pattern, name: self.name.clone() }))
    }
}

impl Namer for RewriteNamer {
    fn lookup(&self, _: &mut Run<'_>, path: &Path) -> Reading<NameTree<Found>> {
        match rewrite(&self.pattern, &self.name, path) {
            Ok(Some(path)) => Reading::Ready(NameTree::Leaf(Found::Path(path))),
            Ok(None) => Reading::Ready(NameTree::Neg),
            Err(message) => Reading::Failed(message.into()),
        }
    }

    /// Nothing has an id here.
    fn addresses(&self, _: &mut Run<'_>, _: &Path) -> Reading<Addr> {
        Reading::Ready(Addr::Neg)
    }
}

/// What `path` becomes; none when it does not match.
///
/// # Errors
/// The path is too short for a `*` of the pattern, or what `name` becomes is no path.
pub fn rewrite(pattern: &Pattern, name: &str, path: &Path) -> Result<Option<Path>, String> {
    let captures = pattern.captures(path).map_err(|error| error.to_string())?;
    captures.map(|captures| Path::parse(&captures.fill_in(name)).map_err(|error| error.to_string())).transpose()
}
