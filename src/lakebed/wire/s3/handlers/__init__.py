"""S3's operations. Each handler parses a request, calls a service, and writes the response."""
