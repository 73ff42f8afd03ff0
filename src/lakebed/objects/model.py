"""The values of the object store: what a bucket, an object, a version, an upload and a part are."""

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
"""The one of an object's headers that copies do not inherit."""


class Extent(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A run of an object's bytes: one blob of the byte store, a range of one, or a few bytes kept right here.

    New fields go to the end: rows of old releases lack them.
    """

    size: int
    blob: BlobId | None = None
    body: bytes | None = None
    seal: bytes | None = None
    """The wrapped key of encrypted bytes."""
    part: int = 0
    """The part it was uploaded as; 0 when the object was put whole."""
    checksum: str = ""
    start: int = 0
    """Where in the blob it begins, if it is borrowed."""
    blob_size: int = 0
    """How many bytes the blob holds of which this is a range; 0 of a piece whose blob is its own, and all of it.

    The content that the blob belongs to is named by the row of the content that borrows (`contents.lender`).
    """


class ObjectAttributes(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, kw_only=True):
    """What clients set on an object besides its bytes. New fields go to the end: rows of old releases lack them."""

    content_type: str = "binary/octet-stream"
    headers: dict[str, str] = {}
    """Standard headers returned as they were sent: cache-control, content-disposition, …"""
    metadata: dict[str, str] = {}
    tags: TagSet = NO_TAGS
    part_count: int = 0
    encrypted: bool = False
    retention: Retention | None = None
    legal_hold: bool | None = None
    """None if it was never said whether there is one."""


class UploadAttributes(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, kw_only=True):
    """What was said when a multipart upload began."""

    object: ObjectAttributes = ObjectAttributes()
    checksum_algorithm: str = ""
    checksum_kind: str = ""
    initiator: str = ""


class CompletedUpload(msgspec.Struct, frozen=True, array_like=True):
    """What a completed upload made, kept so that a repeated Complete gets the same answer."""

    etag: str
    version: str
    checksum: str
    parts: list[tuple[int, str]]
    encrypted: bool = False


class Content(NamedTuple):
    """Where an object's bytes are."""

    body: bytes | None
    seal: bytes | None
    layout: bytes | None


class StoredObject(NamedTuple):
    """One version of an object, as its row has it."""

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
        """The checksum kept with the object."""
        return unpack_checksum(self.checksum_text)


class StoredUpload(NamedTuple):
    """A multipart upload, as its row has it."""

    id: UploadId
    bucket: BucketId
    key: str
    started_ms: int
    attributes: UploadAttributes
    finished_ms: int | None
    result: CompletedUpload | None


class StoredPart(NamedTuple):
    """An uploaded part, as its row has it."""

    number: int
    size: int
    etag: str
    modified_ms: int
    checksum_text: str
    extent: Extent

    @property
    def checksum(self) -> Checksum | None:
        """The checksum of the part alone."""
        return unpack_checksum(self.checksum_text)


class Caller(NamedTuple):
    """Who asks, and the facts about the request that policies and events speak of."""

    principal: Principal
    request_id: str = ""
    source_ip: str = ""
    secure: bool = False
    conditions: Callable[[], Mapping[str, str | tuple[str, ...]]] = dict
    """Makes the condition keys that the edge takes from the request: `s3:x-amz-acl`, `aws:UserAgent`, …"""

    bypass_governance: bool = False
    """The caller asks to pass governance-mode retention, which needs a permission of its own."""

    user_agent: str = ""
    host: str = ""
    """What the request says of its client, and of where it was sent to: for events."""

    connection: object = None
    """What an edge remembers of the connection, where what was said there before counts."""


_attributes_decoder = msgspec.msgpack.Decoder(ObjectAttributes)
_upload_decoder = msgspec.msgpack.Decoder(UploadAttributes)
_result_decoder = msgspec.msgpack.Decoder(CompletedUpload)
_piece_decoder = msgspec.msgpack.Decoder(Extent)
_layout_decoder = msgspec.msgpack.Decoder(list[Extent])
_encoder = msgspec.msgpack.Encoder()

pack = _encoder.encode
"""Values of this module as they are stored."""

unpack_upload = _upload_decoder.decode
unpack_result = _result_decoder.decode
unpack_extent = _piece_decoder.decode
unpack_layout = _layout_decoder.decode

DEFAULT_ATTRIBUTES: Final = ObjectAttributes()

_MAX_REMEMBERED_BYTES: Final = 512


def _unpack_attributes(packed: bytes) -> ObjectAttributes:
    attributes = _attributes_decoder.decode(packed)
    return DEFAULT_ATTRIBUTES if attributes == DEFAULT_ATTRIBUTES else attributes


_remembered_attributes: Final = lru_cache(maxsize=1024)(_unpack_attributes)


def unpack_attributes(packed: bytes) -> ObjectAttributes:
    """Stored attributes. Most objects say as little as others, and the same: they share what was once decoded."""
    return _remembered_attributes(packed) if len(packed) <= _MAX_REMEMBERED_BYTES else _unpack_attributes(packed)


def pack_checksum(checksum: Checksum | None) -> str:
    """A checksum as it is stored beside its row: `CRC32 FULL_OBJECT base64`. Listings read it without decoding."""
    return "" if checksum is None else f"{checksum.algorithm} {checksum.type} {checksum.text}"


def unpack_checksum(text: str) -> Checksum | None:
    """Read the stored form; empty means none."""
    if not text:
        return None
    algorithm, kind, value = text.split(" ", 2)
    parsed = parse_checksum(ChecksumAlgorithm(algorithm), value)
    return Checksum(parsed.algorithm, parsed.digest, ChecksumType(kind), parsed.parts)
