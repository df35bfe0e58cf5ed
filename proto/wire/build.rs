//! Compiles the protobuf files without protoc.

use prost::Message;
use std::env::{var, var_os};
use std::error::Error;
use std::fs::write;
use std::path::PathBuf;

const FILES: [&str; 10] = [
    "aliquot/v1/common.proto",
    "aliquot/v1/session.proto",
    "aliquot/v1/central.proto",
    "aliquot/v1/gossip.proto",
    "aliquot/v1/budget.proto",
    "aliquot/v1/log.proto",
    "aliquot/v1/admin.proto",
    "aliquot/v1/raft.proto",
    "aliquot/v1/peer.proto",
    "aliquot/v1/limits.proto",
];

/// The services of the clients' port.
const PUBLIC: [&str; 2] = ["aliquot/v1/session.proto", "aliquot/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    // Reflection describes the services of the clients' port, and none of the peers' port.
    let public = protox::compile(PUBLIC, ["proto"])?;
    let descriptors = PathBuf::from(var("OUT_DIR")?).join("descriptors.bin");
    write(descriptors, public.encode_to_vec())?;
    // Maps, if any were added, would be ordered: one value, one encoding.
    let services = var_os("CARGO_FEATURE_SERVICES").is_some();
    tonic_prost_build::configure()
        .build_client(services)
        .build_server(services)
        .codec_path("crate::buffers::SmallCodec")
        .bytes(".")
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
