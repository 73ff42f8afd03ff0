from __future__ import annotations

from lakebed.tables.cache import MetadataCache


def test_file_comes_back_until_there_is_no_room_for_it() -> None:
    cache = MetadataCache(max_bytes=20)
    first = cache.keep("s3://b/1", b"x" * 10)
    second = cache.keep("s3://b/2", b"x" * 10)
    assert cache.get("s3://b/1") is first
    assert cache.get("s3://b/2") is second
    assert cache.get("s3://b/3") is None


def test_least_recently_used_file_leaves_first() -> None:
    cache = MetadataCache(max_bytes=30)
    for number in range(3):
        cache.keep(str(number), b"x" * 10)
    assert cache.get("0") is not None
    cache.keep("3", b"x" * 10)
    assert [cache.get(str(number)) is not None for number in range(4)] == [True, False, True, True]


def test_file_that_would_take_most_of_the_room_is_not_kept() -> None:
    cache = MetadataCache(max_bytes=30)
    small = cache.keep("small", b"x" * 15)
    assert cache.keep("large", b"x" * 16).document == b"x" * 16
    assert cache.get("large") is None
    assert cache.get("small") is small


def test_file_kept_again_counts_once_and_takes_the_place_of_the_first() -> None:
    cache = MetadataCache(max_bytes=30)
    other = cache.keep("other", b"x" * 10)
    for _ in range(5):
        again = cache.keep("same", b"y" * 15)
    assert cache.get("same") is again
    assert cache.get("other") is other
    cache.keep("same", b"z" * 16)
    assert cache.get("same") is None, "the old one must not stay where the new one has no room"
    assert cache.get("other") is other
