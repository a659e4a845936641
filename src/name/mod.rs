//! Paths, dtabs, name trees, addresses: plain values. Parse, print, compare; no I/O, no async, no other module.
