//! Compiles the messages without protoc.

use std::error::Error;

const FILES: [&str; 6] = [
    "aliquot/v1/common.proto",
    "aliquot/v1/session.proto",
    "aliquot/v1/gossip.proto",
    "aliquot/v1/budget.proto",
    "aliquot/v1/log.proto",
    "aliquot/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    // Maps would be ordered ones, if there were any: one value, one encoding.
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
