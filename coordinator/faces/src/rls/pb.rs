//! The messages as generated from `proto/envoy`. Nothing in them has been checked.

tonic::include_proto!("envoy.service.ratelimit.v3");
