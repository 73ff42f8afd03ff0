"""Listings and streams over a blocking client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import NoSuchBucket, NotSupported
from lakebed.storage.azure.names import is_listed_in_order
from lakebed.storage.cloud import CloudStorage, ListedPage
from lakebed.storage.seam import Key, ObjectHead, ObjectVersion, WriteCondition


def by_segments(key: str) -> list[bytes]:
    """The order of a hierarchical namespace."""
    return [segment.encode() for segment in key.split("/")]


def by_utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


class ListedKeys:
    """A client that lists keys in a given order, three per page."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.closed = 0

    def list_page(self, prefix: str, start_from: str | None, token: str | None) -> ListedPage:
        self.requests.append((prefix, start_from, token))
        found = [key for key in self.keys if key.startswith(prefix)]
        first = int(token or 0)
        page = [ObjectHead(Key(key), 1, "tag", 1) for key in found[first : first + 3]]
        return ListedPage(page, str(first + 3) if first + 3 < len(found) else None)

    def delete(self, key: str) -> None:
        raise NoSuchBucket(key)

    def close(self) -> None:
        self.closed += 1

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        raise AssertionError

    def get(self, key: str) -> bytes:
        raise AssertionError

    def get_range(self, key: str, start: int, end: int) -> bytes:
        raise AssertionError

    def open_stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        raise AssertionError

    def head(self, key: str) -> ObjectHead:
        raise AssertionError


@asynccontextmanager
async def opened(
    client: ListedKeys, *, key_prefix: str = "", keeps_order: Callable[[str], bool] = lambda key: True
) -> AsyncIterator[CloudStorage]:
    storage = CloudStorage(client, key_prefix=key_prefix, max_concurrency=2, keeps_order=keeps_order)
    try:
        yield storage
    finally:
        await storage.close()


async def listed(storage: CloudStorage, prefix: str = "", start_after: str = "") -> list[str]:
    return [head.key async for head in storage.list_prefix(prefix, start_after)]


segments = st.text(st.sampled_from("a-.0é\ue000\uffff\U00010000"), min_size=1, max_size=2).filter(
    lambda segment: segment not in (".", "..")
)
names = st.lists(segments, min_size=1, max_size=3).map("/".join)


@pytest.mark.slow
@given(keys=st.sets(names, max_size=12), after=names | st.just(""), hierarchical=st.booleans())
async def test_listing_is_in_byte_order_whatever_the_order_of_the_service(
    keys: set[str], after: str, hierarchical: bool
) -> None:
    client = ListedKeys(sorted(keys, key=by_segments if hierarchical else by_utf16))
    async with opened(client, keeps_order=lambda key: is_listed_in_order(key, hierarchical=hierarchical)) as storage:
        expected = sorted((key for key in keys if key.encode() > after.encode()), key=str.encode)
        assert await listed(storage, start_after=after) == expected


async def test_start_behind_the_prefix_sends_no_request() -> None:
    client = ListedKeys(["a/1", "b/1"])
    async with opened(client) as storage:
        assert await listed(storage, "a/", "b") == []
        assert client.requests == []
        assert await listed(storage, "a/", "Z") == ["a/1"]
        assert client.requests == [("a/", None, None)], "a start before the prefix is none"


async def test_store_prefix_is_added_to_requests_and_removed_from_keys() -> None:
    client = ListedKeys(["p/a/1", "p/a/2", "p/a/", "p/a//3", "q"])
    async with opened(client, key_prefix="p/") as storage:
        assert await listed(storage, "a", "a/1") == ["a/2"]
    assert client.requests[0] == ("p/a", "p/a/1", None)


async def test_missing_bucket_is_not_an_absent_object() -> None:
    async with opened(ListedKeys([])) as storage:
        with pytest.raises(NoSuchBucket):
            await storage.delete(Key("k"))
        with pytest.raises(NoSuchBucket):
            await storage.delete_many([Key("k")])


async def test_multipart_uploads_are_rejected() -> None:
    async with opened(ListedKeys([])) as storage:
        with pytest.raises(NotSupported):
            await storage.start_multipart(Key("k"))
        with pytest.raises(NotSupported):
            storage.list_uploads()
        with pytest.raises(NotSupported):
            await storage.abort_upload(Key("k"), "id")


async def test_close_is_idempotent() -> None:
    client = ListedKeys([])
    async with opened(client) as storage:
        await storage.close()
    assert client.closed == 2
