from __future__ import annotations

from lakebed.governance.validated_cache import ValidatedCache


def test_value_comes_back_while_its_source_is_equal() -> None:
    memory: ValidatedCache[list[int], object] = ValidatedCache(2)
    value = memory.keep("a", [1], object())
    assert memory.recall("a", [1]) is value
    assert memory.recall("a", [2]) is None
    assert memory.recall("b", [1]) is None


def test_least_recently_used_goes_first() -> None:
    memory: ValidatedCache[int, str] = ValidatedCache(2)
    memory.keep("a", 1, "A")
    memory.keep("b", 1, "B")
    memory.recall("a", 1)
    memory.keep("c", 1, "C")
    assert memory.recall("b", 1) is None
    assert (memory.recall("a", 1), memory.recall("c", 1)) == ("A", "C")
