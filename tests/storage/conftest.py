"""Services that the byte stores are tested against."""

from tests.fixtures.minio import minio

__all__ = ["minio"]
