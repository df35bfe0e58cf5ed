//! Envoy face: the rate limit service, version 3.
