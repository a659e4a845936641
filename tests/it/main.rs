//! Stories a user would tell, one module each.

mod cases;
mod configs;
mod docs;
mod fuzz_entries;
mod name_values;
mod tables;
