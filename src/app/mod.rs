//! The server assembled: file → parts → ports.

mod figures;
mod file;
mod ledger;
mod limits;
mod parts;
mod run;
mod shown;
mod with;

pub use file::Config;
pub use parts::Parts;
pub use run::run;
