//! gRPC service `aliquot.v1.Limits`.
