"""Compares the object store with the model: every listing, every version, every byte."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from lakebed.core.errors import IsDeleteMarker, NoSuchKey
from lakebed.objects.listing import ListedObject, ListedVersion

from .model import ModelBucket, ModelVersion, Rolled, list_keys
from .pages import all_objects, all_uploads, all_versions
from .stores import ROOT, ObjectStore, read_all

_PAGE_SIZES = (1, 2, 3, 1000)


async def compare_listings(
    store: ObjectStore, name: str, bucket: ModelBucket, random: Random, *, prefix: str, delimiter: str
) -> None:
    """Compare objects, versions and uploads, listed in pages of random sizes."""

    def size() -> int:
        return random.choice(_PAGE_SIZES)

    objects = await all_objects(store, name, size, prefix=prefix, delimiter=delimiter)
    present = [key for key in bucket.keys if bucket.current(key) is not None]
    assert [_entry(item) for item in objects] == list_keys(present, prefix, delimiter)
    for item in objects:
        if isinstance(item, ListedObject):
            _assert_listed(bucket.current(item.key), item)
    versions = await all_versions(store, name, size, prefix=prefix, delimiter=delimiter)
    _assert_versions(bucket, versions, prefix, delimiter)
    uploads = await all_uploads(store, name, size, prefix=prefix, delimiter=delimiter)
    under_way = [upload.key for upload in bucket.uploads.values() if upload.listed is None]
    assert [item if isinstance(item, Rolled) else item.key for item in uploads] == list_keys(
        under_way, prefix, delimiter
    )


def _entry(item: ListedObject | ListedVersion | Rolled) -> str | Rolled:
    return item if isinstance(item, Rolled) else item.key


def _assert_listed(version: ModelVersion | None, item: ListedObject | ListedVersion) -> None:
    assert version is not None
    assert (item.etag, item.modified_ms, item.size) == (version.etag, version.modified_ms, len(version.body or b""))


def _assert_versions(bucket: ModelBucket, listed: list[ListedVersion | Rolled], prefix: str, delimiter: str) -> None:
    expected = list(bucket.versions())
    keys = [_entry(item) for item in listed]
    assert keys == list_keys([key for key, _, _ in expected], prefix, delimiter)
    listed_keys = {key for key in keys if isinstance(key, str)}
    versions = [item for item in listed if isinstance(item, ListedVersion)]
    wanted = [triple for triple in expected if triple[0] in listed_keys]
    for item, (key, version, is_latest) in zip(versions, wanted, strict=True):
        assert (item.key, item.version, item.is_marker, item.is_latest) == (
            key,
            version.id,
            version.is_marker,
            is_latest,
        )
        _assert_listed(version, item)


async def compare_reads(store: ObjectStore, name: str, bucket: ModelBucket, keys: Iterable[str]) -> None:
    """Compare each key, and each of its versions."""
    for key in keys:
        current = bucket.current(key)
        if current is None:
            newest = bucket.keys.get(key, [None])[0]
            with pytest.raises(NoSuchKey) as absent:
                await store.reader.get(ROOT, name, key)
            assert absent.value.delete_marker == (None if newest is None else newest.id)
        else:
            await _compare_read(store, name, key, None, current)
        for version in bucket.keys.get(key, []):
            if version.is_marker:
                with pytest.raises(IsDeleteMarker):
                    await store.reader.get(ROOT, name, key, version=version.id)
            else:
                await _compare_read(store, name, key, version.id, version)


async def _compare_read(store: ObjectStore, name: str, key: str, version_id: str | None, version: ModelVersion) -> None:
    found = await store.reader.get(ROOT, name, key, version=version_id)
    assert found.source is not None
    assert await read_all(found.source) == version.body
    stored = found.object
    assert (stored.version, stored.etag, stored.modified_ms) == (version.id, version.etag, version.modified_ms)
    assert (stored.attributes.metadata, stored.attributes.encrypted) == (version.metadata, version.encrypted)
    assert tuple((tag.key, tag.value) for tag in stored.attributes.tags) == version.tags
    for number, length in enumerate(version.part_sizes, 1):
        part = await store.reader.head(ROOT, name, key, version=version_id, part=number)
        assert part.part_count == len(version.part_sizes)
        assert part.wanted is not None
        assert (part.wanted.start, part.wanted.length) == (sum(version.part_sizes[: number - 1]), length)
