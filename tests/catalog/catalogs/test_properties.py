from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.catalogs.properties import (
    MAX_KEY_BYTES,
    MAX_PROPERTIES,
    MAX_TOTAL_BYTES,
    MAX_VALUE_BYTES,
    changed_properties,
    check_properties,
)
from lakebed.core.errors import ConflictingProperties, InvalidInput

texts = st.text(max_size=3)
FULL = {f"{number:03}": "v" * (MAX_VALUE_BYTES - 3) for number in range(MAX_TOTAL_BYTES // MAX_VALUE_BYTES)}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"k": ""},
        {"k" * MAX_KEY_BYTES: "v" * MAX_VALUE_BYTES},
        {"é" * 128: "é" * 2048},
        {str(number): "" for number in range(MAX_PROPERTIES)},
        FULL,
    ],
    ids=["none", "empty-value", "longest", "longest-in-bytes", "most", "largest"],
)
def test_properties_at_their_limits_are_accepted(properties: dict[str, str]) -> None:
    check_properties(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"k" * (MAX_KEY_BYTES + 1): "v"},
        {"é" * 129: "v"},
        {"k": "v" * (MAX_VALUE_BYTES + 1)},
        {"k": "é" * 2049},
        {str(number): "" for number in range(MAX_PROPERTIES + 1)},
        FULL | {"000": FULL["000"] + "v"},
        FULL | {"k": ""},
        {"k\0": "v"},
        {"k": "v\0"},
        {"k\ud800": "v"},
        {"k": "\udfff"},
    ],
    ids=[
        "no-name",
        "name",
        "name-in-bytes",
        "value",
        "value-in-bytes",
        "count",
        "value-too-long",
        "together",
        "nul-in-name",
        "nul",
        "surrogate-in-name",
        "surrogate",
    ],
)
def test_properties_over_a_limit_are_rejected(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        check_properties(properties)


def test_update_reports_the_result_of_each_property() -> None:
    properties, change = changed_properties({"a": "1", "b": "2"}, {"b": "3", "c": "4"}, ["a", "z"])
    assert properties == {"b": "3", "c": "4"}
    assert (change.updated, change.removed, change.missing) == (["b", "c"], ["a"], ["z"])


def test_property_cannot_be_set_and_removed_together() -> None:
    with pytest.raises(ConflictingProperties, match="both set and removed: a, b"):
        changed_properties({}, {"b": "", "a": ""}, ["a", "b"])


def test_duplicate_removals_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="repeated"):
        changed_properties({"a": "1"}, {}, ["a", "a"])


@given(st.dictionaries(texts, texts), st.dictionaries(texts, texts), st.lists(texts, unique=True))
def test_update_behaves_like_a_dictionary_update(
    current: dict[str, str], updates: dict[str, str], removals: list[str]
) -> None:
    removals = [name for name in removals if name not in updates]
    kept = dict(current)
    properties, change = changed_properties(current, updates, removals)
    assert current == kept
    for name in removals:
        kept.pop(name, None)
    assert properties == kept | updates
    assert sorted(change.removed + change.missing) == sorted(removals)
    assert set(change.removed) == set(removals) & current.keys()
