//! System namers: everything under `/$/`. Pure: names in, names out.
//!
//! A path `/$/K/…` is tried in this order: `K` is `inet` or `fixedinet` with a well-formed port; `/$/fail`; `/$/nil`;
//! the namer called `K`. A `K` that nobody knows is an error and not [`NameTree::Neg`], as in namerd, where it is a
//! class to be loaded: that includes `/$/inet/web/http`, whose port is no number.
//!
//! Elements are looked at, and passed on, as text: bytes that are not UTF-8 become U+FFFD. Ids keep the bytes.

mod hostport;
mod http;
mod inet;
mod rinet;
mod status;

use std::borrow::Cow;
use std::sync::Arc;

use crate::name::{EmptyElement, NameTree, ParseError, Path};

/// A leaf of what a system namer answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemName {
    /// A name that has to be looked up again, through the dtab first.
    Path(Path),
    /// A concrete name.
    Bound {
        /// The full id, `/$/…`; none for `io.buoyant.http.status`, whose ids are not paths.
        id: Option<Path>,
        /// What the namer did not consume.
        residual: Path,
        /// Where its addresses come from.
        addr: SystemAddr,
    },
}

/// Where the addresses of a system name come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemAddr {
    /// It is bound, and there are none.
    None,
    /// `host:port`, or several of them separated by commas or blanks: see [`super::hosts::Hosts::inet`].
    Inet(Arc<str>),
    /// The same, looked up once and for all: see [`super::hosts::Hosts::fixed_inet`].
    Fixed(Arc<str>),
}

/// Why a system name cannot be looked up. The texts are those of namerd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// There is no namer of this name.
    #[error("{0}")]
    UnknownClass(String),
    /// The namer cannot work on this path.
    #[error("{0}")]
    Failed(String),
}

/// What a namer that rewrites paths gives: none is [`NameTree::Neg`].
type Rewritten = Result<Option<Path>, EmptyElement>;

/// What `path` stands for. A path that is not under `/$/` is [`NameTree::Neg`].
///
/// # Errors
/// The name is that of no namer, or the namer cannot work on it.
pub fn lookup(path: &Path) -> Result<NameTree<SystemName>, SystemError> {
    if path.first() != Some(b"$") {
        return Ok(NameTree::Neg);
    }
    let (mut path, mut text) = (path.clone(), as_text(path));
    // Each turn drops what led to the next one, so there are no more turns than elements.
    while text.first() == Some(b"$") {
        let Some(kind) = elem(&text, 1) else {
            return Ok(NameTree::Neg);
        };
        if let Some(name) = inet::lookup(&kind, &path, &text) {
            return Ok(NameTree::Leaf(name));
        }
        let rest = text.drop(2);
        let rewrite: fn(&Path) -> Rewritten = match &*kind {
            "fail" => return Ok(NameTree::Fail),
            "nil" => return Ok(NameTree::Empty),
            "com.twitter.finagle.namer.global" => {
                (path, text) = (rest.clone(), rest);
                continue;
            }
            "io.buoyant.rinet" => return Ok(leaf_or_neg(rinet::lookup(&rest)?)),
            "io.buoyant.http.status" => return Ok(leaf_or_neg(status::lookup(&rest))),
            "io.buoyant.namer.zk.leader" | "com.twitter.serverset" => {
                return Err(SystemError::Failed(format!("/$/{kind} is not built yet: it needs ZooKeeper")));
            }
            "io.buoyant.hostportPfx" => hostport::host_port_pfx,
            "io.buoyant.porthostPfx" => hostport::port_host_pfx,
            "io.buoyant.http.anyMethod" => http::any_method,
            "io.buoyant.http.anyMethodPfx" => http::any_method_pfx,
            "io.buoyant.http.anyHost" => http::any_host,
            "io.buoyant.http.anyHostPfx" => http::any_host_pfx,
            "io.buoyant.http.subdomainOf" => http::subdomain_of,
            "io.buoyant.http.subdomainOfPfx" => http::subdomain_of_pfx,
            "io.buoyant.http.domainToPath" => http::domain_to_path,
            "io.buoyant.http.domainToPathPfx" => http::domain_to_path_pfx,
            _ => return Err(SystemError::UnknownClass(kind.into_owned())),
        };
        return Ok(leaf_or_neg(rewrite(&rest)?.map(SystemName::Path)));
    }
    Ok(NameTree::Neg)
}

fn leaf_or_neg(name: Option<SystemName>) -> NameTree<SystemName> {
    name.map_or(NameTree::Neg, NameTree::Leaf)
}

/// The path with U+FFFD in place of what is not UTF-8.
fn as_text(path: &Path) -> Path {
    if path.elems().all(|elem| str::from_utf8(elem).is_ok()) {
        return path.clone();
    }
    let elems = path.utf8_elems().map(|elem| elem.into_owned().into_bytes());
    Path::from_elems(elems).expect("replacing bytes empties no element")
}

/// The element at position `n`, as text.
fn elem(path: &Path, n: usize) -> Option<Cow<'_, str>> {
    path.nth(n).map(String::from_utf8_lossy)
}

/// These elements, then all of `path` but its first `n` elements.
fn then_rest<E: AsRef<[u8]>>(elems: impl IntoIterator<Item = E>, path: &Path, n: usize) -> Result<Path, EmptyElement> {
    Ok(Path::from_elems(elems)?.concat(&path.drop(n)))
}

impl From<EmptyElement> for SystemError {
    fn from(error: EmptyElement) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ParseError> for SystemError {
    fn from(error: ParseError) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(elems: &[&[u8]]) -> Path {
        Path::from_elems(elems).expect("no element is empty")
    }

    fn bound(id: Path, residual: Path, addr: SystemAddr) -> Result<NameTree<SystemName>, SystemError> {
        Ok(NameTree::Leaf(SystemName::Bound { id: Some(id), residual, addr }))
    }

    #[test]
    fn the_id_keeps_bytes_that_are_no_text_and_everything_else_replaces_them() {
        let replaced = "\u{fffd}".as_bytes();
        assert_eq!(
            lookup(&path(&[b"$", b"inet", b"\xff", b"80", b"\xfe"])),
            bound(path(&[b"$", b"inet", b"\xff", b"80"]), path(&[replaced]), SystemAddr::Inet("\u{fffd}:80".into()))
        );
        assert_eq!(
            lookup(&path(&[b"$", b"io.buoyant.http.anyMethod", b"GET", b"\xff"])),
            Ok(NameTree::Leaf(SystemName::Path(path(&[replaced]))))
        );
        assert_eq!(lookup(&path(&[b"$", b"\xff"])), Err(SystemError::UnknownClass("\u{fffd}".to_owned())));
    }

    #[test]
    fn the_port_of_an_address_is_shown_as_a_number() {
        let fixed = lookup(&path(&[b"$", b"fixedinet", b"web", b"+080", b"r"]));
        let id = path(&[b"$", b"fixedinet", b"web", b"+080"]);
        assert_eq!(fixed, bound(id, path(&[b"r"]), SystemAddr::Fixed("web:80".into())));
    }

    #[test]
    fn the_global_namer_may_lead_to_itself_any_number_of_times() {
        let mut elems: Vec<&[u8]> = Vec::new();
        for _ in 0..10_000 {
            elems.extend([&b"$"[..], b"com.twitter.finagle.namer.global"]);
        }
        assert_eq!(lookup(&path(&elems)), Ok(NameTree::Neg));
        elems.extend([&b"$"[..], b"nil"]);
        assert_eq!(lookup(&path(&elems)), Ok(NameTree::Empty));
    }

    #[test]
    fn a_status_is_bound_without_an_id_and_consumes_nothing() {
        let status = |code: &[u8]| lookup(&path(&[b"$", b"io.buoyant.http.status", code, b"x"]));
        let residual = path(&[b"404", b"x"]);
        let leaf = SystemName::Bound { id: None, residual, addr: SystemAddr::None };
        assert_eq!(status(b"404"), Ok(NameTree::Leaf(leaf)));
        for code in [&b"99"[..], b"600", b"-404", b"x"] {
            assert_eq!(status(code), Ok(NameTree::Neg));
        }
    }

    #[test]
    fn what_needs_zookeeper_says_so() {
        for name in ["io.buoyant.namer.zk.leader", "com.twitter.serverset"] {
            let error = lookup(&path(&[b"$", name.as_bytes(), b"zk:2181", b"a"])).expect_err("not built yet");
            assert_eq!(error.to_string(), format!("/$/{name} is not built yet: it needs ZooKeeper"));
        }
    }
}
