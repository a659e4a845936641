//! Which question a path is.

/// What is asked for. Namespaces are taken verbatim: nothing is decoded, slashes and all belong to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'r> {
    /// `/api/1/dtabs`
    List,
    /// `/api/1/dtabs/<namespace>`
    Dtab(&'r str),
    /// `/api/1/bind/<namespace>`
    Bind(Option<&'r str>),
    /// `/api/1/addr/<namespace>`
    Addr(Option<&'r str>),
    /// `/api/1/resolve/<namespace>`
    Resolve(Option<&'r str>),
    /// `/api/1/delegate[/<namespace>]`
    Delegate(Option<&'r str>),
    /// `GET /api/1/bound-names`
    BoundNames,
    /// Anything else.
    Unknown,
}

// === impl Route ===

impl<'r> Route<'r> {
    /// The first that matches, in namerd's order (HttpControlService.scala:48-62).
    pub(super) fn of(method: &str, path: &'r str) -> Self {
        let Some(rest) = path.strip_prefix("/api/1/") else { return Self::Unknown };
        if let Some(name) = rest.strip_prefix("dtabs") {
            return match name.strip_prefix('/') {
                None if name.is_empty() => Self::List,
                None => Self::Unknown,
                Some("") => Self::List,
                Some(namespace) => Self::Dtab(namespace),
            };
        }
        // `/api/1/bindxyz` is a bind without a namespace.
        for (prefix, route) in [
            ("bind", Self::Bind as fn(Option<&'r str>) -> Self),
            ("addr", Self::Addr),
            ("resolve", Self::Resolve),
            ("delegate", Self::Delegate),
        ] {
            if let Some(name) = rest.strip_prefix(prefix) {
                return route(name.strip_prefix('/'));
            }
        }
        if rest == "bound-names" && method == "GET" { Self::BoundNames } else { Self::Unknown }
    }

    /// Its name in metrics.
    pub(super) fn endpoint(self) -> &'static str {
        match self {
            Self::List => "dtabs",
            Self::Dtab(_) => "dtab",
            Self::Bind(_) => "bind",
            Self::Addr(_) => "addr",
            Self::Resolve(_) => "resolve",
            Self::Delegate(_) => "delegate",
            Self::BoundNames => "bound-names",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_as_namerd_matches_them() {
        for (path, route) in [
            ("/api/1/dtabs", Route::List),
            ("/api/1/dtabs/", Route::List),
            ("/api/1/dtabsexpialidocious", Route::Unknown),
            ("/api/1/dtabs/d1", Route::Dtab("d1")),
            ("/api/1/dtabs/d1/", Route::Dtab("d1/")),
            ("/api/1/dtabs/x%20y/z#a", Route::Dtab("x%20y/z#a")),
            ("/api/1/dtabs//", Route::Dtab("/")),
            ("/api/1/bind/default", Route::Bind(Some("default"))),
            ("/api/1/bind/", Route::Bind(Some(""))),
            ("/api/1/bind", Route::Bind(None)),
            ("/api/1/bindxyz/a", Route::Bind(None)),
            ("/api/1/addr/a/b", Route::Addr(Some("a/b"))),
            ("/api/1/resolve/a", Route::Resolve(Some("a"))),
            ("/api/1/delegatefoo", Route::Delegate(None)),
            ("/api/1/bound-names", Route::BoundNames),
            ("/api/1/bound-names/", Route::Unknown),
            ("/api/1/", Route::Unknown),
            ("/api/2/x", Route::Unknown),
            ("http://h/api/1/dtabs", Route::Unknown),
            ("/", Route::Unknown),
        ] {
            assert_eq!(Route::of("GET", path), route, "{path}");
        }
        assert_eq!(Route::of("POST", "/api/1/bound-names"), Route::Unknown);
        assert_eq!(Route::of("DELETE", "/api/1/bind/x"), Route::Bind(Some("x")));
    }
}
