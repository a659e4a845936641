//! The server assembled: file → parts → ports.

mod figures;
mod file;
mod ledger;
mod limits;
mod parts;
mod place;
mod run;
mod shown;
mod with;

pub use file::Config;
pub use parts::Parts;
pub use place::Start;
pub use run::run;
