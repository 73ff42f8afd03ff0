"""Benchmarks of the S3 API against MinIO: same machine, same disk, same requests, alternating rounds."""
