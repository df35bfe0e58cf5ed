//! The messages as generated from `proto/envoy/xds.proto`. Nothing in them has been checked.

tonic::include_proto!("envoy.service.discovery.v3");
