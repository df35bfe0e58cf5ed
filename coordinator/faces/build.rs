//! Compiles the protobuf files of other projects' services without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["envoy/rls.proto", "envoy/rlqs.proto", "envoy/xds.proto"];
    let files = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
