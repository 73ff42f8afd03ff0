"""S3's operations, one module a family. Each handler parses a request, calls one use case, and writes its answer."""
