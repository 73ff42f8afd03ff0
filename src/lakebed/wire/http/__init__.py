"""HTTP/1.1 server: raw request targets, streamed bodies with backpressure, files sent with sendfile."""
