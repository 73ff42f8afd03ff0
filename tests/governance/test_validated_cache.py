from __future__ import annotations

from lakebed.governance.validated_cache import ValidatedCache


def test_value_is_returned_while_its_source_is_equal() -> None:
    cache: ValidatedCache[list[int], object] = ValidatedCache(2)
    value = cache.put("a", [1], object())
    assert cache.get("a", [1]) is value
    assert cache.get("a", [2]) is None
    assert cache.get("b", [1]) is None


def test_least_recently_used_entry_is_evicted() -> None:
    cache: ValidatedCache[int, str] = ValidatedCache(2)
    cache.put("a", 1, "A")
    cache.put("b", 1, "B")
    cache.get("a", 1)
    cache.put("c", 1, "C")
    assert cache.get("b", 1) is None
    assert (cache.get("a", 1), cache.get("c", 1)) == ("A", "C")
