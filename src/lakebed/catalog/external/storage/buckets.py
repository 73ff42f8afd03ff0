"""Rows for buckets of external object stores: location claims and catalogs refer to them. They have no objects."""

from __future__ import annotations

from lakebed.core.errors import Corrupted
from lakebed.core.ids import BucketId
from lakebed.meta.seam import Transaction
from lakebed.objects.buckets.bucket import Bucket, BucketSettings, bucket_from, encode_settings, external_bucket_name
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.rows import BUCKET_BY_NAME, INSERT_BUCKET

from .model import StorageProfile


def external_bucket(storage: StorageProfile, bucket: str, owner: str, region: str, now_ms: int) -> Bucket:
    """A bucket of an external store that has no row yet; its id is that of no bucket."""
    settings = encode_settings(BucketSettings(tables=True))
    name = external_bucket_name(storage.authority, bucket)
    return Bucket(BucketId(0), name, owner, region, now_ms, Versioning.UNVERSIONED, settings)


async def ensure_external_bucket(tx: Transaction, bucket: Bucket) -> Bucket:
    """The bucket with its row, which catalogs over the same bucket share. A step of a transaction.

    The row is never deleted: it keeps the claims of directories of dropped tables.
    """
    await tx.row(INSERT_BUCKET, *bucket[1:])
    row = await tx.row(BUCKET_BY_NAME, bucket.name)
    if row is None:
        raise Corrupted(f"created bucket was not found. bucket={bucket.name}")
    return bucket_from(row)
