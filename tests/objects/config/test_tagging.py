from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidTag
from lakebed.objects.config.tagging import (
    Tag,
    TagSet,
    bucket_tags,
    format_tag_query,
    object_tags,
    parse_tag_query,
)

allowed = st.characters(categories=["L", "N", "Z"]) | st.sampled_from("_.:/=+-@")
tags = st.builds(
    Tag,
    st.text(allowed, min_size=1, max_size=12).filter(lambda key: not key.lower().startswith("aws:")),
    st.text(allowed, max_size=12),
)
tag_sets = st.lists(tags, max_size=4, unique_by=lambda tag: tag.key).map(object_tags)


@given(tag_sets)
def test_query_form_round_trips(tag_set: TagSet) -> None:
    assert parse_tag_query(format_tag_query(tag_set)) == tag_set


@given(st.text(max_size=60))
def test_any_text_parses_or_is_invalid(text: str) -> None:
    try:
        assert len(parse_tag_query(text)) == len([pair for pair in text.split("&") if pair])
    except InvalidInput:
        assert text


def test_query_form_accepts_plus_for_space_and_keys_without_value() -> None:
    assert parse_tag_query("a=1+1&b&c=%C3%A9%2B") == TagSet((Tag("a", "1 1"), Tag("b", ""), Tag("c", "é+")))
    assert parse_tag_query("") == parse_tag_query("&&") == TagSet()
    assert parse_tag_query("a=1&") == TagSet((Tag("a", "1"),))


@pytest.mark.parametrize("text", ["a=%FF", "a=%", "a%2=1", "=1", "a=1&a=2"])
def test_malformed_query_form_names_its_header(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_tag_query(text)
    assert refused.value.argument == "x-amz-tagging"


@pytest.mark.parametrize("text", ["&".join(f"k{n}=v" for n in range(11)), "a=%0A"])
def test_query_form_with_invalid_tags_is_rejected(text: str) -> None:
    with pytest.raises(InvalidTag):
        parse_tag_query(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("", "v"), ("k" * 129, "v"), ("k", "v" * 257), ("k*", "v"), ("k", "v\n"), ("k", "a&b"), ("AWS:k", "v")],
)
def test_invalid_tag_is_rejected(key: str, value: str) -> None:
    with pytest.raises(InvalidTag):
        Tag(key, value)


def test_tag_at_its_limits_is_accepted() -> None:
    assert Tag("k" * 128, "v" * 256).key == "k" * 128
    assert Tag("schlüssel 1", "_.:/=+-@").value == "_.:/=+-@"


def test_tag_sets_have_limits_and_unique_keys() -> None:
    many = [Tag(f"k{number}", "") for number in range(51)]
    assert len(object_tags(many[:10])) == 10
    assert len(bucket_tags(many[:50])) == 50
    with pytest.raises(InvalidTag, match="limit=10"):
        object_tags(many[:11])
    with pytest.raises(InvalidTag, match="limit=50"):
        bucket_tags(many)
    with pytest.raises(InvalidTag, match="repeated"):
        bucket_tags([Tag("k", "1"), Tag("k", "2")])


def test_has_all_requires_equal_values() -> None:
    have = TagSet((Tag("a", "1"), Tag("b", "2")))
    assert have.has_all([])
    assert have.has_all([Tag("b", "2")])
    assert not have.has_all([Tag("b", "1")])
    assert not TagSet().has_all([Tag("b", "1")])
