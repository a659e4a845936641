//! How numbers and times are read and written. Needs nothing else.

pub mod calendar;
pub mod java;
