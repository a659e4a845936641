//! How numbers, times, parts of URLs and causes of errors are read and written. Needs nothing else.

pub mod calendar;
mod cause;
pub mod java;
pub mod url;

pub use cause::root_cause;
