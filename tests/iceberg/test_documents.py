from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.documents import (
    Count,
    DocumentElement,
    Int,
    compact,
    encode,
    make,
    read,
    read_list,
    rewrite,
    same_meaning,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Part(DocumentElement, frozen=True):
    id: Int
    size: Count = 0


@pytest.mark.slow
@given(st.dictionaries(st.text().filter(lambda name: name not in ("id", "size")), values, max_size=5))
def test_unknown_fields_survive_reading_and_rewriting(unknown: dict[str, object]) -> None:
    part = read(Part, json.dumps({**unknown, "id": 1}).encode(), "part")
    changed = rewrite(part.written, {"id": 2, "size": 3})
    assert json.loads(bytes(changed)) == {**unknown, "id": 2, "size": 3}


def test_text_is_preserved_byte_for_byte() -> None:
    text = b'{"a":1.10,"b":"\\u00e9\\/","c":1e400,"d":123456789012345678901234567890,"id":1}'
    part = read(Part, text, "part")
    assert bytes(encode({"part": part.written})) == b'{"part":' + text + b"}"
    assert bytes(rewrite(part.written, {"id": 7})) == text.replace(b'"id":1', b'"id":7')


def test_only_white_space_between_tokens_is_removed() -> None:
    assert compact(b'{ "a" : [ 1.10 , "x  y" ],\n "b":\t{} }', "it") == b'{"a":[1.10,"x  y"],"b":{}}'


part_lists = st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "size": st.integers(0, 2)}), max_size=8)


@given(part_lists, part_lists, st.integers(0, 8))
def test_parsing_beside_an_earlier_list_gives_the_same_result(
    earlier: list[dict[str, int]], later: list[dict[str, int]], dropped: int
) -> None:
    known = read_list(Part, encode(earlier), "parts")
    for text in (encode(later), encode([*earlier[dropped:], *later])):
        assert read_list(Part, text, "parts", known) == read_list(Part, text, "parts")


def test_parts_with_equal_text_are_reused() -> None:
    parts = [{"id": number} for number in range(5)]
    known = read_list(Part, encode(parts), "parts")
    found = read_list(Part, encode([*parts[2:], {"id": 7}]), "parts", known)
    assert all(one is other for one, other in zip(found, known[2:], strict=False))
    assert [part.id for part in found] == [2, 3, 4, 7]
    with pytest.raises(InvalidInput, match=r"parts\[5\]\.id"):
        read_list(Part, encode([*parts, {"id": "x"}]), "parts", known)


@pytest.mark.parametrize("text", [b"", b"{", b"[1,]", b'{"a":NaN}', b'"\xff"', b"nul", b"\xef\xbb\xbf{}"])
def test_invalid_json_is_rejected(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="it is not valid JSON"):
        compact(text, "it")


@given(st.binary())
def test_noise_is_rejected_or_parsed_and_never_crashes(noise: bytes) -> None:
    with suppress(InvalidInput):
        assert bytes(read(Part, noise, "part").written) == noise


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"id":"x"}', "part.id: expected `int`, got `str`"),
        (b"{}", "part: object missing required field `id`"),
        (b'{"id":1,"size":-1}', "part.size: expected `int` >= 0"),
        (b'{"id":4294967296}', "part.id: expected `int` <= 2147483647"),
        (b"[]", "part: expected `object`, got `array`"),
        (b'{"id":true}', "part.id: expected `int`, got `bool`"),
    ],
)
def test_error_names_the_field(text: bytes, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(Part, text, "part")
    assert str(caught.value) == message
    assert caught.value.argument == message.split(":")[0]


def test_error_in_a_list_names_the_index() -> None:
    with pytest.raises(InvalidInput, match=r"parts\[1\]\.id: expected"):
        read_list(Part, b'[{"id":1},{"id":null}]', "parts")


def test_deep_nesting_is_rejected() -> None:
    deep = b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(InvalidInput):
        read(Part, deep, "part")


def test_field_named_written_does_not_replace_the_text() -> None:
    part = read(Part, b'{"id":1,"written":"forged"}', "part")
    assert bytes(part.written) == b'{"id":1,"written":"forged"}'


def test_new_parts_omit_none() -> None:
    assert bytes(make(Part, {"id": 1, "size": None}, "part").written) == b'{"id":1}'


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', True),
        (b'{"a":1,"b":null}', b'{"a":1}', True),
        (b'{"a":{"x":null}}', b'{"a":{}}', True),
        (b'{"a":[{"x":null}]}', b'{"a":[{}]}', True),
        (b'{"a":1}', b'{"a":2}', False),
        (b'{"a":1,"unknown":1}', b'{"a":1}', False),
        (b'{"a":1,"id":1}', b'{"a":1,"id":2}', True),
    ],
)
def test_equivalence_ignores_formatting(one: bytes, other: bytes, same: bool) -> None:
    assert same_meaning(Raw(one), Raw(other), ignoring=frozenset({"id"})) is same
