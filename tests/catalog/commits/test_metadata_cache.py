from __future__ import annotations

from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.iceberg.metadata.serialization import TableText, TextRun
from tests.iceberg.metadata.test_parsing import GOLDEN


def test_file_is_cached_until_evicted() -> None:
    cache = MetadataCache(max_bytes=20)
    first = cache.keep("s3://b/1", b"x" * 10)
    second = cache.keep("s3://b/2", b"x" * 10)
    assert cache.get("s3://b/1") is first
    assert cache.get("s3://b/2") is second
    assert cache.get("s3://b/3") is None


def test_least_recently_used_file_is_evicted_first() -> None:
    cache = MetadataCache(max_bytes=30)
    for number in range(3):
        cache.keep(str(number), b"x" * 10)
    assert cache.get("0") is not None
    cache.keep("3", b"x" * 10)
    assert [cache.get(str(number)) is not None for number in range(4)] == [True, False, True, True]


def test_file_of_most_of_the_capacity_is_not_cached() -> None:
    cache = MetadataCache(max_bytes=30)
    small = cache.keep("small", b"x" * 15)
    assert cache.keep("large", b"x" * 16).document == b"x" * 16
    assert cache.get("large") is None
    assert cache.get("small") is small


def test_file_cached_again_replaces_the_first() -> None:
    cache = MetadataCache(max_bytes=30)
    other = cache.keep("other", b"x" * 10)
    for _ in range(5):
        again = cache.keep("same", b"y" * 15)
    assert cache.get("same") is again
    assert cache.get("other") is other
    cache.keep("same", b"z" * 16)
    assert cache.get("same") is None, "the old one must not stay where the new one has no room"
    assert cache.get("other") is other


def test_removed_file_frees_capacity() -> None:
    cache = MetadataCache(max_bytes=30)
    first = cache.keep("first", b"x" * 15)
    cache.keep("second", b"x" * 15)
    cache.forget("second")
    cache.forget("second")
    third = cache.keep("third", b"x" * 15)
    assert cache.get("second") is None
    assert cache.get("first") is first
    assert cache.get("third") is third


def test_size_of_a_file_in_text_runs_is_that_of_its_document() -> None:
    cache = MetadataCache(max_bytes=30)
    text = TableText(b"{", TextRun(b"1", b",2"), b"-", TextRun(b"3"), b"}")
    kept = cache.keep("text", text)
    assert (kept.document, kept.size) == (b"{1,2-3}", 7)
    assert b"".join(kept.pieces) == kept.document
    cache.keep("other", b"x" * 15)
    assert cache.get("text") is kept
    cache.keep("another", b"x" * 15)
    assert cache.get("text") is None or cache.get("other") is None


def test_parts_equal_to_an_earlier_version_are_not_parsed_again() -> None:
    document = (GOLDEN / "v3.json").read_bytes()
    cache = MetadataCache()
    first = cache.keep("1", document, of="table").table
    second = cache.keep("2", document, of="table").table
    other = cache.keep("3", document, of="another").table
    assert second == first == other
    for key, snapshot in first.snapshots.items():
        assert second.snapshots[key] is snapshot
        assert other.snapshots[key] is not snapshot
