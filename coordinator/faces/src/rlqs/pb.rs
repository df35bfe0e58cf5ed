//! The messages as generated from `proto/envoy`. Nothing in them has been checked.

tonic::include_proto!("envoy.service.rate_limit_quota.v3");
