//! The messages as generated from `proto/aliquot/v1`.
//!
//! Plain data: nothing in it has been checked. The conversions of this crate
//! make values of the core's types of it, or return an error that names the field.

include!(concat!(env!("OUT_DIR"), "/aliquot.v1.rs"));
