"""Lakebed's S3 edge beside MinIO: same machine, same disk, same requests, alternating rounds."""
