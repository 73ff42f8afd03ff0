"""A byte store in a bucket of any S3 store.

`connect_s3` makes one from `S3Options`. Only `client` knows the client library, which is an extra.
"""

from .connect import connect_s3, credentials_of, region_of
from .options import Checksum, S3Options
from .storage import S3Storage

__all__ = ["Checksum", "S3Options", "S3Storage", "connect_s3", "credentials_of", "region_of"]
