//! What every server of ours does with the bytes of a connection, whatever they mean.

mod output;

pub use output::Output;
