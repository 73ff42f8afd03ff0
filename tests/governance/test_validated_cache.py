from __future__ import annotations

from lakebed.governance.validated_cache import ValidatedCache


def test_value_comes_back_while_its_source_is_equal() -> None:
    memory: ValidatedCache[list[int], object] = ValidatedCache(2)
    value = memory.put("a", [1], object())
    assert memory.get("a", [1]) is value
    assert memory.get("a", [2]) is None
    assert memory.get("b", [1]) is None


def test_least_recently_used_goes_first() -> None:
    memory: ValidatedCache[int, str] = ValidatedCache(2)
    memory.put("a", 1, "A")
    memory.put("b", 1, "B")
    memory.get("a", 1)
    memory.put("c", 1, "C")
    assert memory.get("b", 1) is None
    assert (memory.get("a", 1), memory.get("c", 1)) == ("A", "C")
