"""An object store in a bucket of any S3-compatible store.

`connect_s3` opens one from `S3Options`. Only `client` uses botocore, which is an extra.
"""

from .connect import connect_s3, credentials_of, region_of
from .options import Checksum, S3Options
from .storage import S3Storage

__all__ = ["Checksum", "S3Options", "S3Storage", "connect_s3", "credentials_of", "region_of"]
