"""Data classes for objects, versions, uploads and parts, and their stored forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from lakebed.core.access import Principal
from lakebed.core.checksums import Checksum, ChecksumAlgorithm, ChecksumType, parse_checksum
from lakebed.core.ids import BlobId, BucketId, UploadId, VersionId

from .config.object_lock import Retention
from .config.tagging import NO_TAGS, TagSet

MAX_KEY_BYTES: Final = 1024
MAX_PUT_BYTES: Final = 5 * 1024**3
MAX_METADATA_BYTES: Final = 2048
MIN_PART_BYTES: Final = 5 * 1024**2
MAX_PARTS: Final = 10_000
REDIRECT: Final = "x-amz-website-redirect-location"
"""The only header of an object that copies do not inherit."""


class Extent(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A range of an object's bytes: a blob of the object store, a range of a blob, or inline bytes.

    New fields go to the end: rows of older releases lack them.
    """

    size: int
    blob: BlobId | None = None
    body: bytes | None = None
    seal: bytes | None = None
    """The wrapped data key of encrypted bytes."""
    part: int = 0
    """The part number of a multipart upload; 0 otherwise."""
    checksum: str = ""
    start: int = 0
    """Offset in the blob, for a range of a base blob."""
    blob_size: int = 0
    """Size of the base blob if this is a range of it; 0 if the extent is a whole blob that its content owns.

    The column `contents.lender` of a composed content names the base content.
    """


class ObjectAttributes(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, kw_only=True):
    """What clients set on an object besides its bytes. New fields go to the end: rows of older releases lack them."""

    content_type: str = "binary/octet-stream"
    headers: dict[str, str] = {}
    """Standard headers that are returned as sent: cache-control, content-disposition, …"""
    metadata: dict[str, str] = {}
    tags: TagSet = NO_TAGS
    part_count: int = 0
    encrypted: bool = False
    retention: Retention | None = None
    legal_hold: bool | None = None
    """None if it was never set."""


class UploadAttributes(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, kw_only=True):
    """The attributes of CreateMultipartUpload."""

    object: ObjectAttributes = ObjectAttributes()
    checksum_algorithm: str = ""
    checksum_kind: str = ""
    initiator: str = ""


class CompletedUpload(msgspec.Struct, frozen=True, array_like=True):
    """The result of a completed upload, stored to repeat the response to a repeated CompleteMultipartUpload."""

    etag: str
    version: str
    checksum: str
    parts: list[tuple[int, str]]
    encrypted: bool = False


class Content(NamedTuple):
    """The location of an object's bytes: in the row, or a list of extents."""

    body: bytes | None
    seal: bytes | None
    layout: bytes | None


class StoredObject(NamedTuple):
    """A row of `objects` or `versions`."""

    key: str
    rank: int
    version: VersionId
    size: int
    etag: str
    modified_ms: int
    checksum_text: str
    content: int | None
    attributes: ObjectAttributes
    is_marker: bool = False

    @property
    def checksum(self) -> Checksum | None:
        """The stored checksum."""
        return unpack_checksum(self.checksum_text)


class StoredUpload(NamedTuple):
    """A row of `uploads`."""

    id: UploadId
    bucket: BucketId
    key: str
    started_ms: int
    attributes: UploadAttributes
    finished_ms: int | None
    result: CompletedUpload | None


class StoredPart(NamedTuple):
    """A row of `parts`."""

    number: int
    size: int
    etag: str
    modified_ms: int
    checksum_text: str
    extent: Extent

    @property
    def checksum(self) -> Checksum | None:
        """The checksum of the part."""
        return unpack_checksum(self.checksum_text)


class Caller(NamedTuple):
    """The principal, and the properties of the request for policies and events."""

    principal: Principal
    request_id: str = ""
    source_ip: str = ""
    secure: bool = False
    conditions: Callable[[], Mapping[str, str | tuple[str, ...]]] = dict
    """Returns the condition keys of the HTTP request: `s3:x-amz-acl`, `aws:UserAgent`, …"""

    bypass_governance: bool = False
    """The request bypasses governance-mode retention, which requires a permission."""

    user_agent: str = ""
    host: str = ""
    """Headers of the request, for events."""

    connection: object = None
    """State of the connection, for wire protocols that authenticate connections."""


_attributes_decoder = msgspec.msgpack.Decoder(ObjectAttributes)
_upload_decoder = msgspec.msgpack.Decoder(UploadAttributes)
_result_decoder = msgspec.msgpack.Decoder(CompletedUpload)
_extent_decoder = msgspec.msgpack.Decoder(Extent)
_layout_decoder = msgspec.msgpack.Decoder(list[Extent])
_encoder = msgspec.msgpack.Encoder()

pack = _encoder.encode
"""Encodes values of this module for storage."""

unpack_upload = _upload_decoder.decode
unpack_result = _result_decoder.decode
unpack_extent = _extent_decoder.decode
unpack_layout = _layout_decoder.decode

DEFAULT_ATTRIBUTES: Final = ObjectAttributes()

_MAX_CACHED_BYTES: Final = 512


def _unpack_attributes(packed: bytes) -> ObjectAttributes:
    attributes = _attributes_decoder.decode(packed)
    return DEFAULT_ATTRIBUTES if attributes == DEFAULT_ATTRIBUTES else attributes


_cached_attributes: Final = lru_cache(maxsize=1024)(_unpack_attributes)


def unpack_attributes(packed: bytes) -> ObjectAttributes:
    """Decode stored attributes, with a cache: most objects have the same few."""
    return _cached_attributes(packed) if len(packed) <= _MAX_CACHED_BYTES else _unpack_attributes(packed)


def pack_checksum(checksum: Checksum | None) -> str:
    """A checksum in stored form, `CRC32 FULL_OBJECT base64`, which listings read without decoding."""
    return "" if checksum is None else f"{checksum.algorithm} {checksum.type} {checksum.text}"


def unpack_checksum(text: str) -> Checksum | None:
    """Parse the stored form; empty means none."""
    if not text:
        return None
    algorithm, kind, value = text.split(" ", 2)
    parsed = parse_checksum(ChecksumAlgorithm(algorithm), value)
    return Checksum(parsed.algorithm, parsed.digest, ChecksumType(kind), parsed.parts)
