"""The contract of the object store, for every ObjectStorage, including wrappers.

Subclass `StorageContract`, define a fixture `storage`, and declare in `capabilities` what the store does not support:
tests of undeclared capabilities are skipped. Every test uses a unique prefix, so one bucket is enough for all of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.errors import (
    AlreadyExists,
    InvalidInput,
    InvalidName,
    InvalidPart,
    InvalidPartOrder,
    InvalidRange,
    NotFound,
    PartTooSmall,
    PreconditionFailed,
    Unavailable,
    WriteConflict,
)
from lakebed.storage.seam import (
    MIN_PART_BYTES,
    IfAbsent,
    IfMatch,
    Key,
    ObjectHead,
    ObjectStorage,
    ObjectVersion,
    PartReceipt,
)
from lakebed.storage.writer import BufferedMultipartWriter

T = TypeVar("T")

ODD_KEYS = (
    "with space",
    "plus+sign",
    "percent%2Fslash",
    "question?mark&and=equals#hash",
    "quotes'\"",
    "ümläut/日本語/😀",
    ".hidden",
    "..two-dots-first",
    "dots-last..",
    "UPPER/lower/upper/LOWER",
    "at@sign/plus+/at@",
    "star*<angle>|pipe~tilde",
    "deep/" + "d/" * 60 + "leaf",
    "s" * 200,
)


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a store. The default is everything."""

    min_part_bytes: int = MIN_PART_BYTES
    odd_keys: tuple[str, ...] = ODD_KEYS
    nested_keys: bool = True
    """`a` and `a/b` can both be objects."""
    long_segments: bool = True
    """A segment may be as long as a key."""
    compare_and_swap: bool = True
    multipart: bool = True
    conditional_complete: bool = True
    list_uploads: bool = True


def needs(*names: str) -> Callable[[T], T]:
    """Mark a test to run only with these capabilities."""

    def mark(test: T) -> T:
        test.needs = names  # type: ignore[attr-defined]  # read by the fixture below
        return test

    return mark


async def decided(operation: Callable[[], Awaitable[T]]) -> T:
    """The result of a conditional write, repeated while it is undecided."""
    while True:
        try:
            return await operation()
        except WriteConflict:
            await asyncio.sleep(0)


async def put_all(storage: ObjectStorage, keys: Iterable[str]) -> None:
    limit = asyncio.Semaphore(32)

    async def put(key: str) -> None:
        async with limit:
            await storage.put(Key(key), key.encode())

    await asyncio.gather(*(put(key) for key in keys))


async def heads(storage: ObjectStorage, prefix: str = "", start_after: str = "") -> list[ObjectHead]:
    return [head async for head in storage.list_prefix(prefix, start_after)]


async def keys_of(storage: ObjectStorage, prefix: str = "", start_after: str = "") -> list[str]:
    return [head.key for head in await heads(storage, prefix, start_after)]


async def streamed(storage: ObjectStorage, key: Key, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in storage.stream(key, start, end)])


async def open_uploads(storage: ObjectStorage, prefix: str) -> list[tuple[str, str]]:
    return [(upload.key, upload.upload_id) async for upload in storage.list_uploads(prefix)]


def by_bytes(keys: Iterable[str]) -> list[str]:
    return sorted(keys, key=str.encode)


class StorageContract:
    """The contract suite."""

    capabilities: ClassVar[Capabilities] = Capabilities()

    @pytest.fixture(autouse=True)
    def _skip_undeclared(self, request: pytest.FixtureRequest) -> None:
        for name in getattr(request.function, "needs", ()):
            if not getattr(self.capabilities, name):
                pytest.skip(f"not declared: {name}")

    @pytest.fixture
    def prefix(self) -> str:
        return f"contract-{uuid.uuid4().hex}/"

    @pytest.fixture
    def key(self, prefix: str) -> Key:
        return Key(prefix + "object")

    # --- whole objects

    @pytest.mark.parametrize("size", [0, 1, 4096, 300_001])
    async def test_get_returns_what_put_wrote(self, storage: ObjectStorage, key: Key, size: int) -> None:
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        await storage.put(key, body)
        assert await storage.get(key) == body
        assert (await storage.head(key)).size == size

    async def test_put_replaces_bytes_and_etag(self, storage: ObjectStorage, key: Key) -> None:
        first = await storage.put(key, b"first")
        second = await storage.put(key, b"second and longer")
        assert first.etag != second.etag
        assert await storage.get(key) == b"second and longer"
        assert (await storage.head(key)).etag == second.etag

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    async def test_body_may_be_any_byte_source_type(
        self, storage: ObjectStorage, key: Key, kind: Callable[[bytes], bytes | bytearray | memoryview]
    ) -> None:
        await storage.put(key, kind(b"some bytes"))
        assert await storage.get(key) == b"some bytes"

    async def test_head_returns_the_etag_of_put(self, storage: ObjectStorage, key: Key) -> None:
        version = await storage.put(key, b"four")
        head = await storage.head(key)
        assert (head.key, head.size, head.etag) == (key, 4, version.etag)
        assert head.modified_ms > 0

    async def test_absent_object_is_not_found(self, storage: ObjectStorage, key: Key) -> None:
        with pytest.raises(NotFound):
            await storage.get(key)
        with pytest.raises(NotFound):
            await storage.get_range(key, 0, 1)
        with pytest.raises(NotFound):
            await storage.head(key)
        with pytest.raises(NotFound):
            await streamed(storage, key)

    async def test_deleted_object_is_not_found(self, storage: ObjectStorage, key: Key, prefix: str) -> None:
        await storage.put(key, b"x")
        await storage.delete(key)
        with pytest.raises(NotFound):
            await storage.get(key)
        assert await keys_of(storage, prefix) == []

    async def test_deleting_absent_object_succeeds(self, storage: ObjectStorage, key: Key) -> None:
        await storage.delete(key)
        await storage.delete_many([key])
        await storage.delete_many([])
        with pytest.raises(NotFound):
            await storage.head(key)

    async def test_delete_many_removes_only_the_given_keys(self, storage: ObjectStorage, prefix: str) -> None:
        await put_all(storage, [prefix + name for name in "abcd"])
        await storage.delete_many([Key(prefix + name) for name in ("a", "absent", "c", "a")])
        assert await keys_of(storage, prefix) == [prefix + "b", prefix + "d"]

    async def test_metadata_round_trips(self, storage: ObjectStorage, prefix: str) -> None:
        metadata = {"name": "value", "other1": "with space: and; marks"}
        put, created, swapped = Key(prefix + "p"), Key(prefix + "c"), Key(prefix + "s")
        await storage.put(put, b"", metadata=metadata)
        await storage.put_if_absent(created, b"1", metadata=metadata)
        version = await storage.put(swapped, b"1", metadata={"old": "gone"})
        if self.capabilities.compare_and_swap:
            await storage.put_if_match(swapped, b"2", version.etag, metadata=metadata)
        else:
            await storage.put(swapped, b"2", metadata=metadata)
        for key in (put, created, swapped):
            assert (await storage.head(key)).metadata == metadata

    async def test_put_without_metadata_removes_the_old_metadata(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"1", metadata={"name": "value"})
        await storage.put(key, b"2")
        assert (await storage.head(key)).metadata == {}

    @pytest.mark.parametrize("metadata", [{"Upper": "x"}, {"with-dash": "x"}, {"": "x"}, {"a": "new\nline"}])
    async def test_metadata_that_a_store_may_alter_is_rejected(
        self, storage: ObjectStorage, key: Key, metadata: dict[str, str]
    ) -> None:
        with pytest.raises(InvalidInput):
            await storage.put(key, b"", metadata=metadata)
        with pytest.raises(NotFound):
            await storage.head(key)

    @pytest.mark.parametrize(
        "name", ["", "/", "a//b", "/a", "a/", ".", "..", "a/../b", "a/./b", "nul\0", "k" * 1025, "\ud800"]
    )
    async def test_invalid_keys_are_rejected(self, storage: ObjectStorage, name: str) -> None:
        with pytest.raises(InvalidName):
            await storage.put(Key(name), b"")
        with pytest.raises(InvalidName):
            await storage.get(Key(name))
        with pytest.raises(InvalidName):
            await storage.delete(Key(name))

    async def test_unusual_keys_are_distinct(self, storage: ObjectStorage, prefix: str) -> None:
        keys = [prefix + key for key in self.capabilities.odd_keys]
        await put_all(storage, keys)
        for key in keys:
            assert await storage.get(Key(key)) == key.encode()
        assert await keys_of(storage, prefix) == by_bytes(keys)

    @needs("long_segments")
    async def test_longest_keys_are_supported(self, storage: ObjectStorage, prefix: str) -> None:
        room = 1024 - len(prefix)
        keys = [prefix + "x" * room, prefix + "x" * (room - 1), prefix + "ü" * (room // 2), prefix + "x" * 160]
        await put_all(storage, keys)
        for key in keys:
            assert await storage.get(Key(key)) == key.encode()
        assert await keys_of(storage, prefix) == by_bytes(keys)

    @needs("nested_keys")
    async def test_key_may_be_a_prefix_of_another(self, storage: ObjectStorage, prefix: str) -> None:
        keys = [prefix + key for key in ("a", "a!", "a/b", "a/b/c", "a0", "a/b!")]
        await put_all(storage, keys)
        assert await keys_of(storage, prefix) == by_bytes(keys)
        await storage.delete(Key(prefix + "a"))
        assert await storage.get(Key(prefix + "a/b")) == (prefix + "a/b").encode()

    # --- ranges and streams

    @pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 1), (3, 7), (9, 10), (5, 1000), (0, 10**12)])
    async def test_range_is_half_open_and_limited_to_the_end(
        self, storage: ObjectStorage, key: Key, start: int, end: int
    ) -> None:
        await storage.put(key, b"0123456789")
        assert await storage.get_range(key, start, end) == b"0123456789"[start:end]
        assert await streamed(storage, key, start, end) == b"0123456789"[start:end]

    @pytest.mark.parametrize(("start", "end"), [(10, 11), (11, 20), (-1, 5), (5, 5), (6, 5), (0, 0)])
    async def test_empty_range_is_rejected(self, storage: ObjectStorage, key: Key, start: int, end: int) -> None:
        await storage.put(key, b"0123456789")
        with pytest.raises(InvalidRange):
            await storage.get_range(key, start, end)
        with pytest.raises(InvalidRange):
            await streamed(storage, key, start, end)

    async def test_empty_object_streams_nothing_and_has_no_range(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"")
        assert await streamed(storage, key) == b""
        with pytest.raises(InvalidRange):
            await storage.get_range(key, 0, 1)
        with pytest.raises(InvalidRange):
            await streamed(storage, key, 1)

    async def test_stream_without_end_reads_to_the_end(self, storage: ObjectStorage, key: Key) -> None:
        body = bytes(range(256)) * 12_000
        await storage.put(key, body)
        assert await streamed(storage, key) == body
        assert await streamed(storage, key, 1_234_567) == body[1_234_567:]
        with pytest.raises(InvalidRange):
            await streamed(storage, key, len(body))

    async def test_stream_may_be_closed_early(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"x" * 3_000_000)
        async for piece in storage.stream(key):
            assert piece
            break
        assert await storage.get_range(key, 0, 1) == b"x"

    # --- conditions

    async def test_losing_create_leaves_first_body_visible(self, storage: ObjectStorage, key: Key) -> None:
        first = await storage.put_if_absent(key, b"first")
        with pytest.raises(AlreadyExists):
            await storage.put_if_absent(key, b"second")
        assert await storage.get(key) == b"first"
        assert (await storage.head(key)).etag == first.etag

    async def test_deleted_key_can_be_created_again(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put_if_absent(key, b"first")
        await storage.delete(key)
        await decided(lambda: storage.put_if_absent(key, b"second"))
        assert await storage.get(key) == b"second"

    async def test_exactly_one_concurrent_create_succeeds(self, storage: ObjectStorage, key: Key) -> None:
        async def create(number: int) -> int | None:
            try:
                await decided(lambda: storage.put_if_absent(key, f"creator {number}".encode()))
            except AlreadyExists:
                return None
            return number

        winners = [number for number in await asyncio.gather(*map(create, range(16))) if number is not None]
        assert len(winners) == 1
        assert await storage.get(key) == f"creator {winners[0]}".encode()

    @needs("compare_and_swap")
    async def test_swap_with_the_current_etag_replaces(self, storage: ObjectStorage, key: Key) -> None:
        first = await storage.put(key, b"first")
        second = await storage.put_if_match(key, b"second", first.etag)
        assert await storage.get(key) == b"second"
        third = await storage.put_if_match(key, b"third", second.etag)
        assert (await storage.head(key)).etag == third.etag

    @needs("compare_and_swap")
    async def test_swap_with_a_stale_etag_changes_nothing(self, storage: ObjectStorage, key: Key) -> None:
        first = await storage.put(key, b"first")
        second = await storage.put(key, b"second")
        with pytest.raises(PreconditionFailed):
            await storage.put_if_match(key, b"third", first.etag)
        assert await storage.get(key) == b"second"
        assert (await storage.head(key)).etag == second.etag

    @needs("compare_and_swap")
    async def test_swap_of_an_absent_object_fails(self, storage: ObjectStorage, key: Key) -> None:
        version = await storage.put(key, b"first")
        await storage.delete(key)
        with pytest.raises(PreconditionFailed):
            await storage.put_if_match(key, b"second", version.etag)
        with pytest.raises(NotFound):
            await storage.get(key)

    @needs("compare_and_swap")
    @pytest.mark.slow
    async def test_concurrent_swaps_lose_no_update(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"start")

        async def add(token: str) -> None:
            while True:
                head = await storage.head(key)
                body = await storage.get(key)
                if token.encode() in body.split():
                    return  # an earlier undecided swap had succeeded
                try:
                    await storage.put_if_match(key, body + b" " + token.encode(), head.etag)
                    return
                except (PreconditionFailed, WriteConflict):
                    await asyncio.sleep(0)
                except Unavailable as error:
                    if not error.undecided:
                        raise

        async def add_some(adder: str) -> None:
            for number in range(4):
                await add(f"{adder}{number}")

        await asyncio.gather(*map(add_some, "vwxyz"))
        tokens = (await storage.get(key)).decode().split()
        assert sorted(tokens) == sorted(["start", *(f"{adder}{number}" for adder in "vwxyz" for number in range(4))])
        for adder in "vwxyz":
            added = [token for token in tokens if token.startswith(adder)]
            assert added == sorted(added), "an update was seen and then lost"

    # --- listing

    async def test_listing_is_ordered_by_utf8_bytes(self, storage: ObjectStorage, prefix: str) -> None:
        # UTF-16 order would put the last one before the previous, locale order the capital among the others.
        keys = [prefix + key for key in ("a", "B", "b", "a-b", "a_b", "é", "z", "\ue000", "\U00010000")]
        await put_all(storage, reversed(keys))
        assert await keys_of(storage, prefix) == by_bytes(keys)

    async def test_listing_returns_size_etag_and_time(self, storage: ObjectStorage, key: Key, prefix: str) -> None:
        version = await storage.put(key, b"12345")
        (listed,) = await heads(storage, prefix)
        head = await storage.head(key)
        assert (listed.size, listed.etag) == (5, version.etag)
        assert listed.modified_ms // 1000 == head.modified_ms // 1000

    async def test_prefix_need_not_end_at_a_slash(self, storage: ObjectStorage, prefix: str) -> None:
        await put_all(storage, [prefix + key for key in ("log/1", "log/2", "logs/1", "lo", "m")])
        assert await keys_of(storage, prefix + "log") == [prefix + key for key in ("log/1", "log/2", "logs/1")]
        assert await keys_of(storage, prefix + "log/") == [prefix + "log/1", prefix + "log/2"]
        assert await keys_of(storage, prefix + "nothing") == []

    async def test_listing_starts_after_the_given_key(self, storage: ObjectStorage, prefix: str) -> None:
        keys = [prefix + key for key in ("a/1", "a/2", "b", "c/1", "c/2")]
        await put_all(storage, keys)
        assert await keys_of(storage, prefix, prefix + "a/2") == keys[2:]
        assert await keys_of(storage, prefix, prefix + "a/15") == keys[1:], "a key that does not exist"
        assert await keys_of(storage, prefix, prefix + "c/2") == []
        assert await keys_of(storage, prefix + "c/", prefix + "a/2") == keys[3:], "a position before the prefix"
        assert await keys_of(storage, prefix + "a/", prefix + "b") == [], "a position behind the prefix"

    @pytest.mark.slow
    async def test_listing_of_several_pages_is_complete_from_any_start(
        self, storage: ObjectStorage, prefix: str
    ) -> None:
        keys = [f"{prefix}{number % 7}/{number:05d}" for number in range(1005)]
        await put_all(storage, keys)
        expected = by_bytes(keys)
        assert await keys_of(storage, prefix) == expected
        assert await keys_of(storage, prefix, expected[500]) == expected[501:]
        await storage.delete_many([Key(key) for key in keys])
        assert await keys_of(storage, prefix) == []

    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.differing_executors,
        ],
    )
    @given(data=st.data())
    @pytest.mark.slow
    async def test_listing_equals_a_sorted_dictionary(self, storage: ObjectStorage, data: st.DataObject) -> None:
        prefix = f"model-{uuid.uuid4().hex}/"
        # Each name has one role, so that stores without nested keys are supported.
        folders = st.lists(st.sampled_from(["d", "d-", "d0", "é"]), max_size=2)
        leaf = st.sampled_from(["a", "a-", "a0", "ä", "b", "bb"])
        names = st.builds(lambda above, last: "/".join([*above, last]), folders, leaf)
        keys = data.draw(st.sets(names, max_size=8))
        await put_all(storage, [prefix + key for key in keys])
        removed = data.draw(st.sets(names, max_size=3))
        await storage.delete_many([Key(prefix + key) for key in removed])
        under = data.draw(st.one_of(st.just(""), names, st.sampled_from(["d", "d/", "d-/", "x"])))
        after = data.draw(st.one_of(st.just(""), names))
        remaining = by_bytes(prefix + key for key in keys - removed)
        position = (prefix + after).encode() if after else b""
        expected = [key for key in remaining if key.startswith(prefix + under) and key.encode() > position]
        assert await keys_of(storage, prefix + under, position.decode()) == expected

    # --- uploads in parts

    def part(self, letter: str, extra: int = 0) -> bytes:
        return letter.encode() * (self.capabilities.min_part_bytes + extra)

    @needs("multipart")
    async def test_parts_become_one_object(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key, metadata={"name": "value"})
        assert upload.key == key
        parts = [await upload.upload_part(1, self.part("a", 7)), await upload.upload_part(2, b"tail")]
        version = await upload.complete(parts)
        head = await storage.head(key)
        assert (head.size, head.etag) == (self.capabilities.min_part_bytes + 11, version.etag)
        assert head.metadata == {"name": "value"}
        assert await storage.get(key) == self.part("a", 7) + b"tail"

    @needs("multipart")
    async def test_parts_may_arrive_in_any_order(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        third, first = await asyncio.gather(upload.upload_part(30, b"tail"), upload.upload_part(1, self.part("a")))
        second = await upload.upload_part(7, self.part("b"))
        await upload.complete([first, second, third])
        assert await storage.get(key) == self.part("a") + self.part("b") + b"tail"

    @needs("multipart")
    async def test_nothing_is_visible_before_completion(self, storage: ObjectStorage, key: Key, prefix: str) -> None:
        upload = await storage.start_multipart(key)
        await upload.upload_part(1, b"hidden")
        with pytest.raises(NotFound):
            await storage.head(key)
        assert await keys_of(storage, prefix) == []
        await upload.abort()

    @needs("multipart")
    async def test_completion_replaces_the_object(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"old", metadata={"old": "yes"})
        upload = await storage.start_multipart(key)
        part = await upload.upload_part(1, b"new")
        assert await storage.get(key) == b"old"
        await upload.complete([part])
        assert await storage.get(key) == b"new"
        assert (await storage.head(key)).metadata == {}

    @needs("multipart")
    async def test_part_uploaded_again_replaces_the_first(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        replaced = await upload.upload_part(1, b"first try")
        kept = await upload.upload_part(1, b"second try")
        with pytest.raises(InvalidPart):
            await upload.complete([replaced])
        await upload.complete([kept])
        assert await storage.get(key) == b"second try"

    @needs("multipart")
    async def test_unlisted_part_is_dropped(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        first = await upload.upload_part(1, b"kept")
        await upload.upload_part(2, b"dropped")
        await upload.complete([first])
        assert await storage.get(key) == b"kept"

    @needs("multipart")
    async def test_small_part_is_rejected_on_completion_unless_last(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        small = await upload.upload_part(1, b"small")
        last = await upload.upload_part(2, b"last")
        with pytest.raises(PartTooSmall):
            await upload.complete([small, last])
        with pytest.raises(NotFound):
            await storage.head(key)
        await upload.abort()

    @needs("multipart")
    async def test_invalid_part_lists_are_rejected(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        first = await upload.upload_part(1, self.part("a"))
        second = await upload.upload_part(2, b"b")
        unknown = PartReceipt(3, second.etag, second.size)
        with pytest.raises(InvalidPart):
            await upload.complete([first, unknown])
        with pytest.raises(InvalidPart):
            await upload.complete([first, PartReceipt(2, first.etag, second.size)])
        with pytest.raises(InvalidPartOrder):
            await upload.complete([second, first])
        with pytest.raises(InvalidInput):
            await upload.complete([])
        await upload.complete([first, second])
        assert await storage.get(key) == self.part("a") + b"b"

    @needs("multipart")
    @pytest.mark.parametrize("number", [0, -1, 10_001])
    async def test_part_number_out_of_range_is_rejected(self, storage: ObjectStorage, key: Key, number: int) -> None:
        upload = await storage.start_multipart(key)
        with pytest.raises(InvalidInput):
            await upload.upload_part(number, b"x")
        await upload.abort()

    @needs("multipart")
    async def test_aborted_upload_rejects_parts_and_completion(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        part = await upload.upload_part(1, b"x")
        await upload.abort()
        await upload.abort()
        with pytest.raises(NotFound):
            await upload.upload_part(2, b"y")
        with pytest.raises(NotFound):
            await upload.complete([part])
        with pytest.raises(NotFound):
            await storage.head(key)

    @needs("multipart", "list_uploads")
    async def test_open_uploads_are_listed_until_they_end(self, storage: ObjectStorage, prefix: str) -> None:
        first = await storage.start_multipart(Key(prefix + "a/1"))
        second = await storage.start_multipart(Key(prefix + "a/2"))
        third = await storage.start_multipart(Key(prefix + "b"))
        uploads = [(upload.key, upload.upload_id) for upload in (first, second, third)]
        assert await open_uploads(storage, prefix) == uploads
        assert await open_uploads(storage, prefix + "a/") == uploads[:2]
        await first.complete([await first.upload_part(1, b"x")])
        await second.abort()
        await storage.abort_upload(third.key, third.upload_id)
        await storage.abort_upload(third.key, third.upload_id)
        assert await open_uploads(storage, prefix) == []

    @needs("multipart", "conditional_complete")
    async def test_conditional_completion_of_an_existing_key_fails(self, storage: ObjectStorage, key: Key) -> None:
        await storage.put(key, b"first")
        upload = await storage.start_multipart(key)
        part = await upload.upload_part(1, b"second")
        with pytest.raises(AlreadyExists):
            await upload.complete([part], IfAbsent())
        assert await storage.get(key) == b"first"
        await upload.abort()

    @needs("multipart", "conditional_complete")
    async def test_conditional_completion_of_an_absent_key_succeeds(self, storage: ObjectStorage, key: Key) -> None:
        upload = await storage.start_multipart(key)
        await upload.complete([await upload.upload_part(1, b"made")], IfAbsent())
        assert await storage.get(key) == b"made"

    @needs("multipart", "conditional_complete", "compare_and_swap")
    async def test_completion_swaps_by_etag(self, storage: ObjectStorage, key: Key) -> None:
        first = await storage.put(key, b"first")
        winner, rejected = await storage.start_multipart(key), await storage.start_multipart(key)
        second = await winner.complete([await winner.upload_part(1, b"second")], IfMatch(first.etag))
        part = await rejected.upload_part(1, b"third")
        with pytest.raises(PreconditionFailed):
            await rejected.complete([part], IfMatch(first.etag))
        assert (await storage.head(key)).etag == second.etag
        await rejected.abort()

    @needs("multipart", "conditional_complete")
    async def test_exactly_one_concurrent_conditional_completion_succeeds(
        self, storage: ObjectStorage, key: Key
    ) -> None:
        async def make(number: int) -> ObjectVersion:
            upload = await storage.start_multipart(key)
            part = await upload.upload_part(1, f"upload {number}".encode())
            try:
                return await upload.complete([part], IfAbsent())
            finally:
                await upload.abort()

        async def win(number: int) -> ObjectVersion | None:
            try:
                return await decided(lambda: make(number))
            except AlreadyExists:
                return None

        versions = await asyncio.gather(*map(win, range(6)))
        ((number, version),) = [(number, version) for number, version in enumerate(versions) if version is not None]
        assert await storage.get(key) == f"upload {number}".encode()
        assert (await storage.head(key)).etag == version.etag

    # --- the writer on top

    @needs("multipart", "conditional_complete")
    @pytest.mark.parametrize("extra", [0, 1])
    async def test_writer_combines_many_writes_into_one_object(
        self, storage: ObjectStorage, key: Key, prefix: str, extra: int
    ) -> None:
        await self.check_written(storage, key, 8 * 1024 * 1024 + extra)
        if self.capabilities.list_uploads:
            assert await open_uploads(storage, prefix) == []

    async def test_writer_sends_a_small_object_at_once(self, storage: ObjectStorage, key: Key) -> None:
        await self.check_written(storage, key, 8 * 1024 * 1024 - 1)

    async def check_written(self, storage: ObjectStorage, key: Key, size: int) -> None:
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        async with BufferedMultipartWriter(storage, key, condition=IfAbsent()) as writer:
            for start in range(0, len(body), 1_000_003):
                await writer.write(body[start : start + 1_000_003])
            written = await writer.finish()
        assert await storage.get(key) == body
        head = await storage.head(key)
        assert (head.size, head.etag) == (written.size, written.etag)
