//! Reads the binary protocol from memory.
