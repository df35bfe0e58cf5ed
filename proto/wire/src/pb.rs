//! The messages as generated from `proto/aliquot/v1`.
//!
//! Plain data: nothing in it has been checked. The conversions of this crate
//! make values of the core's types of it, or say what is wrong.

include!(concat!(env!("OUT_DIR"), "/aliquot.v1.rs"));
