"""Services for tests of object stores."""

from tests.fixtures.minio import minio

__all__ = ["minio"]
