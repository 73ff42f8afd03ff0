"""Objects that borrow bytes: some of their own, and ranges of a blob that another object brought.

A large object that is written again and again with little changed is stored whole now and then, and in between as what
is new beside ranges of that. To readers it is an object as any other. What lends is a content, not a key: the object
that the blob came with may be written over or deleted, its bytes stay for as long as anything borrows them.

A lender is one blob of its own: nothing is ever borrowed of what is borrowed, and a read looks in two places at most.
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
    """A content that lends ranges of its one blob."""

    content: int
    extent: Extent

    @property
    def encrypted(self) -> bool:
        """Whether the blob is sealed, and with it what borrows."""
        return self.extent.seal is not None


class BaseRange(NamedTuple):
    """A range of a lender's bytes, and its checksum by the default algorithm."""

    start: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class ComposedObject:
    """An object that borrows, to which nothing refers yet. Nothing of it is stored: its own bytes are in its row."""

    size: int
    etag: str
    checksum: Checksum
    extents: list[Extent]
    base: int
    encrypted: bool


def digest_of(data: bytes) -> bytes:
    """The checksum of bytes that are to be borrowed."""
    hasher = new_hasher(DEFAULT_ALGORITHM)
    hasher.update(data)
    return hasher.digest()


def own_size(parts: Sequence[bytes | BaseRange]) -> int:
    """How many bytes an object of these parts has of its own."""
    return sum(len(part) for part in parts if isinstance(part, bytes))


def compose(keys: KeyRing, base: BaseContent, parts: Sequence[bytes | BaseRange]) -> ComposedObject:
    """An object of these parts. The cost is that of its own bytes, however many it borrows.

    Its ETag has the form of those of multipart uploads, which clients take for no MD5: nobody reads what is borrowed.
    Its checksum is that of all its bytes all the same.
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
            extents.append(_own_piece(keys, part, encrypt=base.encrypted))
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


def _range_of(lent: Extent, part: BaseRange) -> Extent:
    if not 0 <= part.start <= part.start + part.size <= lent.size:
        raise ValueError(f"borrowed past the end. start={part.start} size={part.size} of={lent.size}")
    return Extent(part.size, blob=lent.blob, seal=lent.seal, start=part.start, blob_size=lent.size)


def _own_piece(keys: KeyRing, body: bytes, *, encrypt: bool) -> Extent:
    if not encrypt or not body:
        return Extent(len(body), body=body)
    key, seal = keys.new_data_key()
    return Extent(len(body), body=seal_whole(key, body), seal=seal)
