"""HTTP/1.1 as the edges need it: raw targets, streamed bodies with backpressure, files sent by the kernel."""
