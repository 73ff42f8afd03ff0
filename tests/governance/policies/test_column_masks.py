from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.column_masks import HIDDEN, Mask, MaskKind, read_masks, strictest

AT = ("columns",)


def test_masks_can_be_strings_or_objects() -> None:
    assert read_masks(
        {
            "a": "null",
            "b": {"mask": "constant", "value": "x"},
            "c": "hash",
            "d": {"mask": "hash", "salt": "s"},
            "e": {"mask": "partial", "last": 4},
            "f": {"mask": "year"},
        },
        AT,
    ) == {
        "a": HIDDEN,
        "b": Mask(MaskKind.CONSTANT, value="x"),
        "c": Mask(MaskKind.HASH),
        "d": Mask(MaskKind.HASH, salt="s"),
        "e": Mask(MaskKind.PARTIAL, last=4),
        "f": Mask(MaskKind.YEAR),
    }


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$.columns"),
        ({}, "$.columns"),
        (["a"], "$.columns"),
        ({"": "null"}, "$.columns['']"),
        ({"a": None}, "$.columns.a"),
        ({"a": "blur"}, "$.columns.a.mask"),
        ({"a": {}}, "$.columns.a.mask"),
        ({"a": {"mask": ["null"]}}, "$.columns.a.mask"),
        ({"a": {"mask": "null", "value": 1}}, "$.columns.a.value"),
        ({"a": "constant"}, "$.columns.a.value"),
        ({"a": {"mask": "constant", "value": None}}, "$.columns.a.value"),
        ({"a": {"mask": "constant", "value": {}}}, "$.columns.a.value"),
        ({"a": "partial"}, "$.columns.a"),
        ({"a": {"mask": "partial", "first": 0, "last": 0}}, "$.columns.a"),
        ({"a": {"mask": "partial", "first": -1}}, "$.columns.a.first"),
        ({"a": {"mask": "partial", "last": True}}, "$.columns.a.last"),
        ({"a": {"mask": "partial", "last": "4"}}, "$.columns.a.last"),
        ({"a": {"mask": "hash", "salt": 4}}, "$.columns.a.salt"),
        ({"a": {"mask": "hash", "salt": "x" * 257}}, "$.columns.a.salt"),
    ],
)
def test_errors_have_a_json_path(document: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read_masks(document, AT)
    assert refused.value.argument == path


def test_stricter_mask_applies() -> None:
    by_strictness = (
        HIDDEN,
        Mask(MaskKind.CONSTANT, value=0),
        Mask(MaskKind.HASH),
        Mask(MaskKind.PARTIAL, first=9),
        Mask(MaskKind.YEAR),
    )
    for stricter, other in pairwise(by_strictness):
        assert strictest([stricter, other]) == strictest([other, stricter]) == stricter
    both = strictest([Mask(MaskKind.PARTIAL, first=2, last=5), Mask(MaskKind.PARTIAL, first=4, last=1)])
    assert both == Mask(MaskKind.PARTIAL, first=2, last=1)
    assert strictest([Mask(MaskKind.CONSTANT, value=1), Mask(MaskKind.CONSTANT, value=2)]) == HIDDEN
    assert strictest([Mask(MaskKind.HASH, salt="a"), Mask(MaskKind.HASH, salt="b")]) == HIDDEN


MASKS = st.one_of(
    st.just(HIDDEN),
    st.builds(lambda value: Mask(MaskKind.CONSTANT, value=value), st.integers(0, 1)),
    st.builds(lambda salt: Mask(MaskKind.HASH, salt=salt), st.sampled_from(["", "s"])),
    st.builds(lambda first, last: Mask(MaskKind.PARTIAL, first=first, last=last), st.integers(0, 2), st.integers(0, 2)),
    st.just(Mask(MaskKind.YEAR)),
)


@given(st.lists(MASKS, min_size=1, max_size=4).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_strictest_is_independent_of_order_and_never_shows_more(orders: tuple[list[Mask], ...]) -> None:
    some, shuffled = orders
    found = strictest(some)
    assert strictest(shuffled) == strictest([*some, *some]) == found
    assert list(MaskKind).index(found.kind) <= min(list(MaskKind).index(mask.kind) for mask in some)
    assert strictest([*some, HIDDEN]) == HIDDEN
