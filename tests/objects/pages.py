"""Reads listings page by page to the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakebed.objects.listing import ListedObject, ListedVersion, Listing
from lakebed.objects.model import StoredUpload

from .model import Rolled
from .stores import ROOT, ObjectStore

Entry = TypeVar("Entry", ListedObject, ListedVersion, StoredUpload)

PageSize = Callable[[], int]
"""Returns the size of the next page."""


def _check(page: Listing[Entry], limit: int) -> list[Entry | Rolled]:
    """The page's keys and common prefixes in order; asserts that each page but the last is full."""
    entries: list[Entry | Rolled] = list(page.entries)
    entries += map(Rolled, page.prefixes)
    assert len(entries) <= limit
    if page.truncated:
        assert len(entries) == limit, "a page before the last is not full"
    entries.sort(key=lambda item: (item.prefix if isinstance(item, Rolled) else item.key).encode())
    if entries:
        last = entries[-1]
        assert page.last == (last.prefix if isinstance(last, Rolled) else last)
    return entries


async def all_objects(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = "", after: str = ""
) -> list[ListedObject | Rolled]:
    """ListObjects until it is not truncated."""
    entries: list[ListedObject | Rolled] = []
    while True:
        limit = size()
        page = await store.lister.objects(ROOT, bucket, prefix=prefix, delimiter=delimiter, after=after, limit=limit)
        entries += _check(page, limit)
        if not page.truncated:
            return entries
        assert page.last is not None
        after = page.last if isinstance(page.last, str) else page.last.key


async def all_versions(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = ""
) -> list[ListedVersion | Rolled]:
    """ListObjectVersions until it is not truncated."""
    entries: list[ListedVersion | Rolled] = []
    key_marker, version_marker = "", ""
    while True:
        limit = size()
        page = await store.lister.versions(
            ROOT,
            bucket,
            prefix=prefix,
            delimiter=delimiter,
            key_marker=key_marker,
            version_marker=version_marker,
            limit=limit,
        )
        entries += _check(page, limit)
        if not page.truncated:
            return entries
        assert page.last is not None
        if isinstance(page.last, str):
            key_marker, version_marker = page.last, ""
        else:
            key_marker, version_marker = page.last.key, page.last.version


async def all_uploads(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = ""
) -> list[StoredUpload | Rolled]:
    """ListMultipartUploads until it is not truncated."""
    entries: list[StoredUpload | Rolled] = []
    key_marker, upload_marker = "", ""
    while True:
        limit = size()
        page = await store.lister.uploads(
            ROOT,
            bucket,
            prefix=prefix,
            delimiter=delimiter,
            key_marker=key_marker,
            upload_marker=upload_marker,
            limit=limit,
        )
        entries += _check(page, limit)
        if not page.truncated:
            return entries
        assert page.last is not None
        if isinstance(page.last, str):
            key_marker, upload_marker = page.last, ""
        else:
            key_marker, upload_marker = page.last.key, page.last.id
