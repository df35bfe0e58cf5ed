//! HTTP face: JSON over HTTP/1.1 and HTTP/2.
