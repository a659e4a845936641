//! Makes src/mesh/proto.rs of idl/*.proto. Run it in the folder of the project:
//! `cargo run --manifest-path idl/generate/Cargo.toml -- src/mesh/proto.rs`

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let to = std::env::args().nth(1).ok_or("which file is to be written?")?;
    let files = ["dtab", "interpreter", "resolver", "delegator", "codec"].map(|name| format!("{name}.proto"));
    let messages = protox::compile(files, ["idl"])?;
    let folder = PathBuf::from(format!("{to}.new"));
    std::fs::create_dir_all(&folder)?;
    prost_build::Config::new().bytes(["."]).btree_map(["."]).out_dir(&folder).compile_fds(messages)?;
    std::fs::rename(folder.join("io.linkerd.mesh.rs"), to)?;
    Ok(std::fs::remove_dir(folder)?)
}
