//! transformer
