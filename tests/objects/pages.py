"""Listings read to their end, page by page, as clients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakebed.objects.listing import ListedObject, ListedVersion, Listing
from lakebed.objects.model import StoredUpload

from .model import Rolled
from .stores import ROOT, ObjectStore

Entry = TypeVar("Entry", ListedObject, ListedVersion, StoredUpload)

PageSize = Callable[[], int]
"""How many keys the next page asks for."""


def _check(page: Listing[Entry], limit: int) -> list[Entry | Rolled]:
    """The page's entries and common prefixes in order, each page full unless it is the last."""
    told: list[Entry | Rolled] = list(page.entries)
    told += map(Rolled, page.prefixes)
    assert len(told) <= limit
    if page.truncated:
        assert len(told) == limit, "a page that is not the last is full"
    told.sort(key=lambda item: (item.prefix if isinstance(item, Rolled) else item.key).encode())
    if told:
        last = told[-1]
        assert page.last == (last.prefix if isinstance(last, Rolled) else last)
    return told


async def all_objects(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = "", after: str = ""
) -> list[ListedObject | Rolled]:
    """ListObjects until it is not truncated."""
    told: list[ListedObject | Rolled] = []
    while True:
        limit = size()
        page = await store.lister.objects(ROOT, bucket, prefix=prefix, delimiter=delimiter, after=after, limit=limit)
        told += _check(page, limit)
        if not page.truncated:
            return told
        assert page.last is not None
        after = page.last if isinstance(page.last, str) else page.last.key


async def all_versions(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = ""
) -> list[ListedVersion | Rolled]:
    """ListObjectVersions until it is not truncated."""
    told: list[ListedVersion | Rolled] = []
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
        told += _check(page, limit)
        if not page.truncated:
            return told
        assert page.last is not None
        if isinstance(page.last, str):
            key_marker, version_marker = page.last, ""
        else:
            key_marker, version_marker = page.last.key, page.last.version


async def all_uploads(
    store: ObjectStore, bucket: str, size: PageSize, *, prefix: str = "", delimiter: str = ""
) -> list[StoredUpload | Rolled]:
    """ListMultipartUploads until it is not truncated."""
    told: list[StoredUpload | Rolled] = []
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
        told += _check(page, limit)
        if not page.truncated:
            return told
        assert page.last is not None
        if isinstance(page.last, str):
            key_marker, upload_marker = page.last, ""
        else:
            key_marker, upload_marker = page.last.key, page.last.id
