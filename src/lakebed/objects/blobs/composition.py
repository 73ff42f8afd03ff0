"""Composed objects: stored bytes combined with ranges of the blob of another object's content, the base.

A large object that is rewritten often with few changes is stored in full only now and then. In between, only its new
bytes are stored, together with references to ranges of the base. Readers see no difference. The base is a content, not
a key: its object may be overwritten or deleted, but its bytes stay as long as a composed object references them.

A base is always one complete blob, never itself composed, so a read follows at most one reference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.checksums import DEFAULT_ALGORITHM, Checksum, PartDigest, full_object_checksum, new_hasher

from ..model import Extent
from .encryption import KeyRing, seal_whole


@dataclass(frozen=True, slots=True)
class BaseContent:
    """A content whose single blob composed objects may reference."""

    content: int
    extent: Extent

    @property
    def encrypted(self) -> bool:
        """Whether the blob is encrypted, and so every object composed from it."""
        return self.extent.seal is not None


class BaseRange(NamedTuple):
    """A range of a base content's bytes, with its checksum by the default algorithm."""

    start: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ComposedObject:
    """A composed object before it is published. Its new bytes are stored in its row, so no blob is written."""

    size: int
    etag: str
    checksum: Checksum
    extents: list[Extent]
    base: int
    encrypted: bool


def digest_of(data: bytes) -> bytes:
    """The default checksum of the bytes of a base range."""
    hasher = new_hasher(DEFAULT_ALGORITHM)
    hasher.update(data)
    return hasher.digest()


def own_size(parts: Sequence[bytes | BaseRange]) -> int:
    """The number of new bytes of an object composed of these parts."""
    return sum(len(part) for part in parts if isinstance(part, bytes))


def compose(keys: KeyRing, base: BaseContent, parts: Sequence[bytes | BaseRange]) -> ComposedObject:
    """Compose an object of new bytes and base ranges. The cost depends on the new bytes only.

    The ETag has the multipart form, which clients do not compare with an MD5: base bytes are not read. The checksum
    covers all bytes.
    """
    extents: list[Extent] = []
    digests: list[PartDigest] = []
    named = hashlib.md5(usedforsecurity=False)
    for part in parts:
        if isinstance(part, BaseRange):
            extents.append(_range_of(base.extent, part))
            digests.append(PartDigest(part.digest, part.size))
            name = f"{base.extent.blob} {part.start} {part.size}".encode()
        else:
            extents.append(_new_piece(keys, part, encrypt=base.encrypted))
            digests.append(PartDigest(digest_of(part), len(part)))
            name = part
        named.update(hashlib.md5(name, usedforsecurity=False).digest())
    return ComposedObject(
        sum(extent.size for extent in extents),
        f"{named.hexdigest()}-{len(extents)}",
        full_object_checksum(DEFAULT_ALGORITHM, digests),
        extents,
        base.content,
        base.encrypted,
    )


def _range_of(base: Extent, part: BaseRange) -> Extent:
    if not 0 <= part.start <= part.start + part.size <= base.size:
        raise ValueError(f"range exceeds the base blob. start={part.start} size={part.size} base_size={base.size}")
    return Extent(part.size, blob=base.blob, seal=base.seal, start=part.start, blob_size=base.size)


def _new_piece(keys: KeyRing, body: bytes, *, encrypt: bool) -> Extent:
    if not encrypt or not body:
        return Extent(len(body), body=body)
    key, seal = keys.new_data_key()
    return Extent(len(body), body=seal_whole(key, body), seal=seal)
