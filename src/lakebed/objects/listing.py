"""Listing: keys and common prefixes in order of their UTF-8 bytes, a page at a time.

A page costs the same however large the bucket is: pages are ranges of the clustered index, and a common prefix is
stepped over by seeking past it, not by reading the keys below it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from lakebed.core.errors import InvalidInput

from . import rows
from .bucket import Bucket
from .facilities import Facilities
from .model import Caller, StoredUpload
from .rows import upload_from

_LAST_CODE_POINT: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000
_DELIMITED_BATCH: Final = 100
"""Rows read at a time when keys are rolled up: more would mostly be read in vain."""


class ListedObject(NamedTuple):
    """One key of a listing."""

    key: str
    size: int
    etag: str
    modified_ms: int
    checksum_text: str


class ListedVersion(NamedTuple):
    """One version or delete marker of a listing."""

    key: str
    rank: int
    version: str
    size: int
    etag: str
    modified_ms: int
    checksum_text: str
    is_marker: bool
    is_latest: bool


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


Entry = TypeVar("Entry", bound=_Keyed)


@dataclass(frozen=True, slots=True)
class Listing(Generic[Entry]):
    """One page."""

    bucket: Bucket
    entries: list[Entry]
    prefixes: list[str]
    truncated: bool
    last: Entry | str | None
    """What the page ended on: an entry, or a common prefix. The next page starts after it."""


def successor(prefix: str) -> str | None:
    """The least text greater than every text that starts with `prefix`; None if there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point == _FIRST_SURROGATE:
            point = _AFTER_SURROGATES
        if point <= _LAST_CODE_POINT:
            return prefix[:-1] + chr(point)
        prefix = prefix[:-1]
    return None


class Position(NamedTuple):
    """A place in the order of a listing: everything greater is still to come."""

    key: str
    tail: int | str
    """What orders entries of one key: a version's rank, an upload's id; `first` and `final` stand around them all."""


@dataclass(frozen=True, slots=True)
class _Order:
    """How entries of one key are ordered."""

    first: int | str
    final: int | str


_BY_KEY: Final = _Order(0, 1)
_BY_RANK: Final = _Order(-(2**62), 2**62)
_BY_UPLOAD: Final = _Order("", "\U0010ffff")

Fetch = Callable[[Position, int], Awaitable[list[Entry]]]


class Lister:
    """Lists objects, versions and uploads."""

    def __init__(self, facilities: Facilities) -> None:
        self._f = facilities

    async def objects(
        self, caller: Caller, bucket_name: str, *, prefix: str, delimiter: str, after: str, limit: int
    ) -> Listing[ListedObject]:
        """Current objects under `prefix` after `after`; at most `limit` keys and common prefixes together."""
        bucket = await self._admit(caller, bucket_name, "s3:ListBucket", prefix, delimiter, limit)
        end = successor(prefix)

        async def fetch(start: Position, count: int) -> list[ListedObject]:
            inclusive = start.tail == _BY_KEY.first
            if end is None:
                statement = rows.LIST_PAGE_FROM if inclusive else rows.LIST_PAGE
                found = await self._f.meta.rows(statement, bucket.id, start.key, count)
            else:
                statement = rows.LIST_PAGE_FROM_WITHIN if inclusive else rows.LIST_PAGE_WITHIN
                found = await self._f.meta.rows(statement, bucket.id, start.key, end, count)
            return list(map(ListedObject._make, found))

        def position(entry: ListedObject) -> Position:
            return Position(entry.key, _BY_KEY.final)

        start = Position(after, _BY_KEY.final)
        return await _fill(bucket, fetch, position, _BY_KEY, start, prefix, delimiter, limit)

    async def versions(
        self,
        caller: Caller,
        bucket_name: str,
        *,
        prefix: str,
        delimiter: str,
        key_marker: str,
        version_marker: str,
        limit: int,
    ) -> Listing[ListedVersion]:
        """All versions and delete markers, newest first under each key."""
        bucket = await self._admit(caller, bucket_name, "s3:ListBucketVersions", prefix, delimiter, limit)
        start = Position(key_marker, _BY_RANK.final)
        if version_marker:
            marked = await self._f.meta.row(
                rows.RANK_OF_VERSION, bucket.id, key_marker, version_marker, bucket.id, key_marker, version_marker
            )
            if marked is None:
                raise InvalidInput("no such version to list from", argument="version-id-marker", value=version_marker)
            start = Position(key_marker, marked[0])

        async def fetch(start: Position, count: int) -> list[ListedVersion]:
            found = await self._f.meta.rows(
                rows.VERSIONS_BEHIND, bucket.id, start.key, start.tail, bucket.id, start.key, start.tail, count
            )
            listed = []
            previous = None if start.tail == _BY_RANK.first else start.key
            for row in found:
                listed.append(ListedVersion._make((*row[:7], bool(row[7]), row[0] != previous)))
                previous = row[0]
            return listed

        def position(entry: ListedVersion) -> Position:
            return Position(entry.key, entry.rank)

        return await _fill(bucket, fetch, position, _BY_RANK, start, prefix, delimiter, limit)

    async def uploads(
        self,
        caller: Caller,
        bucket_name: str,
        *,
        prefix: str,
        delimiter: str,
        key_marker: str,
        upload_marker: str,
        limit: int,
    ) -> Listing[StoredUpload]:
        """Multipart uploads under way, by key and then by start."""
        bucket = await self._admit(caller, bucket_name, "s3:ListBucketMultipartUploads", prefix, delimiter, limit)

        async def fetch(start: Position, count: int) -> list[StoredUpload]:
            found = await self._f.meta.rows(rows.UPLOADS_BEHIND, bucket.id, start.key, start.tail, count)
            return [upload_from(row) for row in found]

        def position(entry: StoredUpload) -> Position:
            return Position(entry.key, entry.id)

        start = Position(key_marker, upload_marker if upload_marker and key_marker else _BY_UPLOAD.final)
        return await _fill(bucket, fetch, position, _BY_UPLOAD, start, prefix, delimiter, limit)

    async def _admit(
        self, caller: Caller, bucket_name: str, action: str, prefix: str, delimiter: str, limit: int
    ) -> Bucket:
        bucket = await self._f.bucket(self._f.meta, bucket_name)
        extra: dict[str, str | tuple[str, ...]] = {
            "s3:prefix": prefix,
            "s3:delimiter": delimiter,
            "s3:max-keys": str(limit),
        }
        self._f.authorize(caller, bucket, action, extra=extra)
        return bucket


async def _fill(
    bucket: Bucket,
    fetch: Fetch[Entry],
    position: Callable[[Entry], Position],
    order: _Order,
    start: Position,
    prefix: str,
    delimiter: str,
    limit: int,
) -> Listing[Entry]:
    """Fill a page with entries and common prefixes behind `start`."""
    entries: list[Entry] = []
    prefixes: list[str] = []
    last: Entry | str | None = None
    if limit == 0:
        return Listing(bucket, entries, prefixes, truncated=False, last=None)
    if start.key < prefix:
        start = Position(prefix, order.first)
    elif (rolled := rolled_up(start.key, prefix, delimiter)) is not None and start.key.startswith(prefix):
        # The last page ended on this prefix, or inside it: its keys have been told.
        beyond = successor(rolled)
        if beyond is None:
            return Listing(bucket, entries, prefixes, truncated=False, last=None)
        start = Position(beyond, order.first)
    while True:
        room = limit - len(entries) - len(prefixes) + 1
        count = min(room, _DELIMITED_BATCH) if delimiter else room
        batch = await fetch(start, count)
        skipping = ""
        for entry in batch:
            if not entry.key.startswith(prefix):
                return Listing(bucket, entries, prefixes, truncated=False, last=last)
            if skipping and entry.key.startswith(skipping):
                continue
            if len(entries) + len(prefixes) == limit:
                return Listing(bucket, entries, prefixes, truncated=True, last=last)
            rolled = rolled_up(entry.key, prefix, delimiter)
            if rolled is None:
                entries.append(entry)
                last = entry
                skipping = ""
            else:
                prefixes.append(rolled)
                last = skipping = rolled
        if len(batch) < count:
            return Listing(bucket, entries, prefixes, truncated=False, last=last)
        if skipping:
            beyond = successor(skipping)
            if beyond is None:
                return Listing(bucket, entries, prefixes, truncated=False, last=last)
            start = Position(beyond, order.first)
        else:
            start = position(batch[-1])


def rolled_up(key: str, prefix: str, delimiter: str) -> str | None:
    """The common prefix that `key` is rolled up into, if any."""
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return None if at < 0 else key[: at + len(delimiter)]
