from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import ConflictingProperties, InvalidInput
from lakebed.governance.labels import (
    LabelChange,
    LabelKind,
    LabelOwner,
    Labels,
    LabelSubject,
    OwnerKind,
    TagFilter,
    apply_change,
    parse_owner,
    parse_tag_filter,
)
from lakebed.governance.labels.model import MAX_TAGS
from lakebed.governance.labels.rows import COLUMNS, label_key, reference

ANN = LabelOwner(OwnerKind.PRINCIPAL, "ann")
TEAM = LabelOwner(OwnerKind.PRINCIPAL_ROLE, "team:data")

keys = st.text(
    st.characters(codec="utf-8", exclude_characters=":", exclude_categories=("Cc", "Cs")), min_size=1
).filter(lambda key: key == key.strip() and len(key.encode()) <= 128)
values = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=60)
tags = st.dictionaries(keys, values, max_size=6)


def test_change_sets_and_removes_tags() -> None:
    before = Labels({"a": "1", "b": "2", "c": "3"}, ANN)
    after = apply_change(before, LabelChange({"b": "4", "d": "5"}, ["c", "none"]))
    assert after == Labels({"a": "1", "b": "4", "d": "5"}, ANN)
    assert apply_change(after, LabelChange(owner=TEAM)).owner == TEAM
    assert apply_change(after, LabelChange(owner=None)) == Labels(after.tags, None)
    assert apply_change(after, LabelChange()) == after


@given(tags, tags, st.sets(keys, max_size=3))
def test_set_tags_are_present_and_removed_tags_absent(
    before: Mapping[str, str], changed: Mapping[str, str], removed: set[str]
) -> None:
    removed_keys = sorted(removed - changed.keys())
    after = apply_change(Labels(before), LabelChange(changed, removed_keys)).tags
    assert {key: after[key] for key in changed} == dict(changed)
    assert not set(removed_keys) & after.keys()
    untouched = before.keys() - changed.keys() - set(removed_keys)
    assert {key: after[key] for key in untouched} == {key: before[key] for key in untouched}
    assert after.keys() == changed.keys() | untouched


@pytest.mark.parametrize(
    "change",
    [
        LabelChange({"": "1"}),
        LabelChange({"a:b": "1"}),
        LabelChange({" a": "1"}),
        LabelChange({"a\n": "1"}),
        LabelChange({"k" * 129: "1"}),
        LabelChange({"ü" * 65: "1"}),
        LabelChange({"a": "v" * 257}),
        LabelChange({"a": "1\x00"}),
        LabelChange({"a": "\ud800"}),
        LabelChange({f"k{number}": "" for number in range(MAX_TAGS + 1)}),
    ],
)
def test_invalid_tags_are_refused(change: LabelChange) -> None:
    with pytest.raises(InvalidInput):
        apply_change(Labels(), change)


def test_tag_both_set_and_removed_is_refused() -> None:
    with pytest.raises(ConflictingProperties):
        apply_change(Labels({"a": "1"}), LabelChange({"a": "2"}, ["a"]))


def test_tags_at_the_limit_can_be_changed() -> None:
    full = Labels({f"k{number}": "" for number in range(MAX_TAGS)})
    assert len(apply_change(full, LabelChange({"k0": "new"})).tags) == MAX_TAGS
    assert len(apply_change(full, LabelChange({"new": ""}, ["k0"])).tags) == MAX_TAGS


@given(keys, st.none() | values)
def test_tag_filters_round_trip(key: str, value: str | None) -> None:
    one = TagFilter(key, value)
    assert parse_tag_filter(str(one)) == one
    assert one.matches({key: value or ""})
    assert not one.matches({})
    if value is not None:
        assert not one.matches({key: value + "x"})


@given(st.text())
def test_any_text_is_a_filter_or_owner_or_refused(text: str) -> None:
    for parse in (parse_tag_filter, parse_owner):
        try:
            parsed = parse(text)
        except InvalidInput:
            continue
        assert str(parsed) == text


@pytest.mark.parametrize("owner", [ANN, TEAM])
def test_owners_round_trip(owner: LabelOwner) -> None:
    assert parse_owner(str(owner)) == owner


@pytest.mark.parametrize("text", ["", "ann", "principal:", "principal", "group:a", ":ann"])
def test_invalid_owners_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_owner(text)


def test_every_kind_references_one_column() -> None:
    assert {label_key(kind, 1) for kind in LabelKind} == {f"{column} 1" for column in COLUMNS}
    for kind in LabelKind:
        assert [one for one in reference(kind, 7) if one is not None] == [7]


def test_text_of_a_subject_is_its_path() -> None:
    assert str(LabelSubject(LabelKind.TABLE, "lake", ("a", "b"), "t")) == "lake/a.b/t"
    assert str(LabelSubject(LabelKind.PRINCIPAL, name="ann")) == "ann"
