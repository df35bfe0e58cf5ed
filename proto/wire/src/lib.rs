//! Protobuf messages of Aliquot and their total conversions to and from the core's types.

pub mod pb;
