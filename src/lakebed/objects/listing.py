"""Lists keys and common prefixes in the order of their UTF-8 bytes, a page at a time.

The cost of a page does not depend on the size of the bucket: pages are ranges of the clustered index, and a common
prefix is skipped by a seek, without reading the keys below it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from lakebed.core.errors import InvalidInput
from lakebed.meta.seam import Row

from . import rows
from .buckets.bucket import Bucket
from .context import ObjectContext
from .model import Caller, StoredUpload
from .rows import upload_from

_LAST_CODE_POINT: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000
_VERSION_ID: Final = re.compile("null|[0-9a-f]{28}")
_FIRST_STEP: Final = 64
_LEAST_STEP: Final = 2
_MOST_STEP: Final = 1024
"""Limits for the rows read at once with a delimiter: more if most are listed, few if large prefixes are skipped."""


class ListedObject(NamedTuple):
    """A key in a listing."""

    key: str
    size: int
    etag: str
    modified_ms: int
    checksum_text: str


class ListedVersion(NamedTuple):
    """A version or delete marker in a listing."""

    key: str
    rank: int
    version: str
    size: int
    etag: str
    modified_ms: int
    checksum_text: str
    is_marker: bool
    is_latest: bool


Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Entry]):
    """A page of a listing."""

    bucket: Bucket
    entries: list[Entry]
    prefixes: list[str]
    truncated: bool
    last: Entry | str | None
    """The last entry or common prefix of the page. The next page starts after it."""


def successor(prefix: str) -> str | None:
    """The smallest text greater than every text that starts with `prefix`; None if there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point == _FIRST_SURROGATE:
            point = _AFTER_SURROGATES
        if point <= _LAST_CODE_POINT:
            return prefix[:-1] + chr(point)
        prefix = prefix[:-1]
    return None


class ListingPosition(NamedTuple):
    """A position in the order of a listing; the page continues with greater entries."""

    key: str
    tail: int | str
    """Orders entries of one key: a version's rank or an upload's id, between the bounds `first` and `final`."""


@dataclass(frozen=True, slots=True)
class _Order:
    """Bounds for the order of entries of one key."""

    first: int | str
    final: int | str


_BY_KEY: Final = _Order(0, 1)
_BY_RANK: Final = _Order(-(2**62), 2**62)
_BY_UPLOAD: Final = _Order("", "\U0010ffff")

Fetch = Callable[[ListingPosition, int], Awaitable[list[Row]]]
"""Returns rows after a position, in order, with the key in the first column."""


class Lister:
    """Lists objects, versions and uploads."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context

    async def objects(
        self, caller: Caller, bucket_name: str, *, prefix: str, delimiter: str, after: str, limit: int
    ) -> Listing[ListedObject]:
        """Current objects under `prefix` after `after`; at most `limit` keys and common prefixes together."""
        bucket = await self._authorize(caller, bucket_name, "s3:ListBucket", prefix, delimiter, limit)
        end = successor(prefix)

        async def fetch(start: ListingPosition, count: int) -> list[Row]:
            inclusive = start.tail == _BY_KEY.first
            if end is None:
                statement = rows.LIST_PAGE_FROM if inclusive else rows.LIST_PAGE
                return await self._context.meta.rows(statement, bucket.id, start.key, count)
            statement = rows.LIST_PAGE_FROM_WITHIN if inclusive else rows.LIST_PAGE_WITHIN
            return await self._context.meta.rows(statement, bucket.id, start.key, end, count)

        page = _Page(prefix, delimiter, limit, _BY_KEY)
        await page.fill(
            fetch, ListingPosition(after, _BY_KEY.final), lambda row: ListingPosition(row[0], _BY_KEY.final)
        )
        return page.listing(bucket, ListedObject._make)

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
        bucket = await self._authorize(caller, bucket_name, "s3:ListBucketVersions", prefix, delimiter, limit)
        start = ListingPosition(key_marker, _BY_RANK.final)
        if version_marker:
            marked = await self._context.meta.row(
                rows.RANK_OF_VERSION, bucket.id, key_marker, version_marker, bucket.id, key_marker, version_marker
            )
            if marked is not None:
                start = ListingPosition(key_marker, marked[0])
            elif _VERSION_ID.fullmatch(version_marker):
                # The marker version was deleted since the last page, for example by a client that empties the bucket.
                # Its rank is unknown, so the key is listed from its newest version: repeated rather than skipped.
                start = ListingPosition(key_marker, _BY_RANK.first)
            else:
                raise InvalidInput("no such version to list from", argument="version-id-marker", value=version_marker)

        async def fetch(start: ListingPosition, count: int) -> list[Row]:
            found = await rows.listed_versions_after(self._context.meta, bucket.id, start.key, int(start.tail), count)
            listed: list[Row] = []
            previous = None if start.tail == _BY_RANK.first else start.key
            for row in found:
                listed.append((*row[:7], bool(row[7]), row[0] != previous))
                previous = row[0]
            return listed

        page = _Page(prefix, delimiter, limit, _BY_RANK)
        await page.fill(fetch, start, lambda row: ListingPosition(row[0], row[1]))
        return page.listing(bucket, ListedVersion._make)

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
        """Incomplete multipart uploads, by key and start."""
        bucket = await self._authorize(caller, bucket_name, "s3:ListBucketMultipartUploads", prefix, delimiter, limit)

        async def fetch(start: ListingPosition, count: int) -> list[Row]:
            found = await self._context.meta.rows(rows.UPLOADS_AFTER, bucket.id, start.key, start.tail, count)
            return [(upload.key, upload) for upload in map(upload_from, found)]

        start = ListingPosition(key_marker, upload_marker if upload_marker and key_marker else _BY_UPLOAD.final)
        page = _Page(prefix, delimiter, limit, _BY_UPLOAD)
        await page.fill(fetch, start, lambda row: ListingPosition(row[0], row[1].id))
        return page.listing(bucket, lambda row: row[1])

    async def _authorize(
        self, caller: Caller, bucket_name: str, action: str, prefix: str, delimiter: str, limit: int
    ) -> Bucket:
        bucket = await self._context.bucket(self._context.meta, bucket_name)
        extra: dict[str, str | tuple[str, ...]] = {
            "s3:prefix": prefix,
            "s3:delimiter": delimiter,
            "s3:max-keys": str(limit),
        }
        await self._context.authorize(caller, bucket, action, extra=extra)
        return bucket


class _Page:
    """Fills a page."""

    def __init__(self, prefix: str, delimiter: str, limit: int, order: _Order) -> None:
        self._prefix = prefix
        self._delimiter = delimiter
        self._limit = limit
        self._order = order
        self._entries: list[Row] = []
        self._prefixes: list[str] = []
        self._truncated = False
        self._last: Row | str | None = None

    def listing(self, bucket: Bucket, make: Callable[[Row], Entry]) -> Listing[Entry]:
        """The page, with its rows converted to entries."""
        last = self._last
        return Listing(
            bucket,
            list(map(make, self._entries)),
            self._prefixes,
            self._truncated,
            last if last is None or isinstance(last, str) else make(last),
        )

    async def fill(self, fetch: Fetch, start: ListingPosition, position: Callable[[Row], ListingPosition]) -> None:
        """Read rows after `start` until the page is full or there are no more."""
        if self._limit == 0:
            return
        first = self._first(start)
        if first is None:
            return
        start = first
        step = _FIRST_STEP
        while True:
            room = self._limit - len(self._entries) - len(self._prefixes) + 1
            count = min(room, step) if self._delimiter else room
            batch = await fetch(start, count)
            known = len(self._entries) + len(self._prefixes)
            rolled = self._take(batch)
            if rolled is None or len(batch) < count:
                return
            gained = len(self._entries) + len(self._prefixes) - known
            # Small common prefixes are read through; large ones are skipped, a few rows at a time.
            step = min(step * 2, _MOST_STEP) if gained * 4 >= count else max(_LEAST_STEP, gained * 2)
            if not rolled:
                start = position(batch[-1])
                continue
            beyond = successor(rolled)
            if beyond is None:
                return
            start = ListingPosition(beyond, self._order.first)

    def _first(self, start: ListingPosition) -> ListingPosition | None:
        if start.key < self._prefix:
            return ListingPosition(self._prefix, self._order.first)
        if start.key and rolled_up(start.key, self._prefix, self._delimiter) == start.key:
            # The last page ended with this common prefix, so its keys are skipped.
            beyond = successor(start.key)
            return None if beyond is None else ListingPosition(beyond, self._order.first)
        return start

    def _take(self, batch: list[Row]) -> str | None:
        """Add rows to the page; the common prefix of the last row, or an empty string; None if the page is done."""
        prefix, delimiter, limit = self._prefix, self._delimiter, self._limit
        entries, prefixes = self._entries, self._prefixes
        room = limit - len(entries) - len(prefixes)
        if not delimiter and batch and batch[-1][0].startswith(prefix):
            # Rows are ordered and none precedes the prefix: if the last row has it, all have it.
            entries += batch[:room]
            self._last = entries[-1]
            self._truncated = len(batch) > room
            return None if self._truncated else ""
        rolled = ""
        for row in batch:
            key = row[0]
            if rolled and key.startswith(rolled):
                continue
            if not key.startswith(prefix):
                return None
            if room == 0:
                self._truncated = True
                return None
            room -= 1
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            if at < 0:
                rolled = ""
                entries.append(row)
                self._last = row
            else:
                rolled = key[: at + len(delimiter)]
                prefixes.append(rolled)
                self._last = rolled
        return rolled


def rolled_up(key: str, prefix: str, delimiter: str) -> str | None:
    """The common prefix that contains `key`, if any."""
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return None if at < 0 else key[: at + len(delimiter)]
