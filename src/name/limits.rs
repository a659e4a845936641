//! How much of a caller's input is accepted. namerd knows no limits and ends by stack overflow instead.

use std::fmt;

/// Bounds on what the reader takes from a caller. Over a bound the input is refused with the bound's name, and nothing
/// of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Levels of parentheses, and levels of alts and unions inside each other (`limits.depth`).
    pub depth: usize,
    /// Elements in one path or prefix (`limits.pathSegments`).
    pub path_segments: usize,
    /// Bytes of text in one dtab, name tree or path (`limits.dtabBytes`). The number of entries is free.
    pub dtab_bytes: usize,
}

impl Limits {
    /// 64 levels, 1,000 elements, 16 MiB.
    pub const DEFAULT: Self = Self { depth: 64, path_segments: 1_000, dtab_bytes: 16 << 20 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which of the [`Limits`] an input exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// [`Limits::depth`]
    Depth,
    /// [`Limits::path_segments`]
    PathSegments,
    /// [`Limits::dtab_bytes`]
    DtabBytes,
}

impl fmt::Display for Limit {
    /// The configuration key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Depth => "limits.depth",
            Self::PathSegments => "limits.pathSegments",
            Self::DtabBytes => "limits.dtabBytes",
        })
    }
}
