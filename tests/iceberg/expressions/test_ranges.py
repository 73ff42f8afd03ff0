from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.iceberg.expressions.bound import BoundPredicate, BoundTerm, equal_to_any, predicate_matches
from lakebed.iceberg.expressions.ranges import ValueRange, may_overlap
from lakebed.iceberg.types import parse_primitive

LONG = parse_primitive("long")
TERM = BoundTerm(1, "x", LONG, nullable=True)
ENDS = st.none() | st.integers(-5, 15)


@given(st.sets(st.integers(-10, 20)), ENDS, ENDS)
def test_set_overlaps_a_range_if_a_value_does(values: set[int], lower: int | None, upper: int | None) -> None:
    claim = equal_to_any(TERM, values)
    if isinstance(claim, BoundPredicate):
        expected = any((lower is None or lower <= one) and (upper is None or one <= upper) for one in values)
        assert ValueRange(LONG, lower, upper).may_hold(claim) == expected


@given(st.sets(st.integers(-5, 5), min_size=1), st.none() | st.integers(-6, 6))
def test_value_is_in_a_set_or_not(values: set[int], value: int | None) -> None:
    wanted, denied = equal_to_any(TERM, values), equal_to_any(TERM, values, wanted=False)
    assert isinstance(wanted, BoundPredicate)
    assert isinstance(denied, BoundPredicate)
    assert predicate_matches(wanted, value) == (value in values)
    assert predicate_matches(denied, value) == (value not in values)


@given(ENDS, ENDS, ENDS, ENDS)
def test_ranges_overlap_if_a_value_is_in_both(a: int | None, b: int | None, c: int | None, d: int | None) -> None:
    def includes(lower: int | None, upper: int | None, value: int) -> bool:
        return (lower is None or lower <= value) and (upper is None or value <= upper)

    both = any(includes(a, b, value) and includes(c, d, value) for value in range(-20, 30))
    if both:
        assert may_overlap(ValueRange(LONG, a, b), ValueRange(LONG, c, d))
