"""A bucket and its settings."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from lakebed.core.access import ResourceRules
from lakebed.core.clock import Clock
from lakebed.core.ids import NULL_VERSION, BucketId, VersionId, new_version_id
from lakebed.meta.seam import Row

from ..config.cors import CorsConfiguration
from ..config.encryption import BucketEncryption
from ..config.lifecycle import LifecycleConfiguration
from ..config.object_lock import ObjectLockConfiguration
from ..config.ownership import ObjectOwnership
from ..config.public_access import PublicAccessBlock
from ..config.tagging import NO_TAGS, TagSet
from ..config.versioning import Versioning


class BucketSettings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All settings of a bucket except its versioning. Stored as one value, changed in a transaction."""

    policy: bytes | None = None
    lifecycle: LifecycleConfiguration | None = None
    cors: CorsConfiguration | None = None
    tags: TagSet = NO_TAGS
    encryption: BucketEncryption | None = None
    object_lock: ObjectLockConfiguration | None = None
    public_access_block: PublicAccessBlock | None = None
    ownership: ObjectOwnership | None = None
    tables: bool = False
    """Whether the bucket is a table bucket, with further rules for its keys (see `context.TableBucketAuthorizer`)."""
    event_mask: int = 0
    """The events in its notification configuration, a bit for each (`lakebed.events.names`).

    Every request reads these settings, so the rules are stored elsewhere (`notification_versions`).
    """


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(BucketSettings)


EXTERNAL: Final = "/"
"""The first character of the names of external buckets, `/HOST/BUCKET`: those of catalogs over other object stores.

No S3 request can name such a bucket, and none has objects here.
"""


def external_bucket_name(authority: str, bucket: str) -> str:
    """The name of a bucket of another object store."""
    return f"{EXTERNAL}{authority}/{bucket}"


@lru_cache(maxsize=4096)
def decode_settings(packed: bytes) -> BucketSettings:
    """Decode stored settings, with a cache."""
    return _decoder.decode(packed)


def encode_settings(settings: BucketSettings) -> bytes:
    """Encode settings for storage."""
    return _encode(settings)


@lru_cache(maxsize=4096)
def _rules(owner: str, packed: bytes) -> ResourceRules:
    settings = decode_settings(packed)
    block = settings.public_access_block
    return ResourceRules(
        owner=owner, policy=settings.policy, restrict_public_buckets=block is not None and block.restrict_public_buckets
    )


class Bucket(NamedTuple):
    """A row of `buckets`."""

    id: BucketId
    name: str
    owner: str
    region: str
    created_ms: int
    versioning: str
    packed_settings: bytes

    @property
    def location_name(self) -> str:
        """Its name in locations: for an external bucket, that in its own store."""
        return self.name.rpartition("/")[2]

    @property
    def settings(self) -> BucketSettings:
        """Its decoded settings."""
        return decode_settings(self.packed_settings)

    @property
    def access_rules(self) -> ResourceRules:
        """Owner, bucket policy and public access block, for authorization."""
        return _rules(self.owner, self.packed_settings)

    @property
    def keeps_versions(self) -> bool:
        """Whether versioning is or was enabled, so that a key may have more than one version."""
        return self.versioning != Versioning.UNVERSIONED

    @property
    def holds_tables(self) -> bool:
        """Whether this is a table bucket."""
        return self.settings.tables

    @property
    def table_arn(self) -> str:
        """Its ARN as a table bucket, for policies."""
        return f"arn:aws:s3tables:{self.region}:{self.owner}:bucket/{self.name}"

    @property
    def encrypts(self) -> bool:
        """Whether new objects are encrypted by default."""
        return self.settings.encryption is not None

    def new_version(self, clock: Clock) -> VersionId:
        """The version id of an object written now."""
        return new_version_id(clock) if self.versioning == Versioning.ENABLED else NULL_VERSION


def bucket_from(row: Row) -> Bucket:
    """A bucket, from the first columns of a row."""
    return Bucket._make(row[:7])
