"""Services for tests of object stores."""

from tests.fixtures.azurite import azurite
from tests.fixtures.minio import minio

__all__ = ["azurite", "minio"]
