"""Services for tests of object stores."""

from tests.fixtures.azurite import azurite
from tests.fixtures.fake_gcs import fake_gcs
from tests.fixtures.minio import minio

__all__ = ["azurite", "fake_gcs", "minio"]
