#![no_main]

#[path = "../entries/thrift_call.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
