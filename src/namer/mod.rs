//! namer
