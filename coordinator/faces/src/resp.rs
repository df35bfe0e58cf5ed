//! Redis face: RESP2 and RESP3.
