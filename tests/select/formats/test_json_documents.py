from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.dialect.paths import MISSING, FieldName, Index, Path, PathWildcard, unfold
from lakebed.select.formats import json_documents
from lakebed.select.formats.json_documents import DocumentScanner

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", 'q"\\', "é"]), inner, max_size=3)
    ),
    max_leaves=12,
)
paths = st.lists(
    st.sampled_from([FieldName("a", quoted=True), FieldName("b", quoted=True), Index(0), Index(1)]), max_size=2
).flatmap(lambda ahead: st.sampled_from([(), (*ahead, PathWildcard()), (*ahead, PathWildcard(fields=True))]))


class Dribble(io.BytesIO):
    """A stream that returns data in small steps."""


def found(data: bytes, path: Path) -> list[Any]:
    return [MISSING if text is None else json.loads(text) for text in DocumentScanner(io.BytesIO(data), path).values()]


@given(st.lists(values, max_size=4), paths, st.sampled_from([None, 1, "\t"]), st.integers(1, 9))
def test_values_equal_those_of_decoded_documents(
    documents: list[Any], path: Path, indent: int | str | None, step: int
) -> None:
    data = "\n ".join(json.dumps(document, indent=indent, ensure_ascii=False) for document in documents).encode()
    before = json_documents._FETCH_BYTES
    json_documents._FETCH_BYTES = step  # type: ignore[misc]  # small steps, so that everything is cut somewhere
    try:
        assert found(data, path) == [record for document in documents for record in unfold(document, path)]
    finally:
        json_documents._FETCH_BYTES = before  # type: ignore[misc]


@pytest.mark.parametrize("text", ["{", '{"a"', '{"a":1', "[1", '"a', '{"a" 1}', "{1:2}", '{"a":1,}x', "}"])
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(SelectError) as raised:
        found(text.encode(), (FieldName("a"), PathWildcard()))
    assert raised.value.code == "JSONParsingError"


@pytest.mark.slow
def test_long_list_is_read_by_elements() -> None:
    data = b'{"big": "' + b"x" * 900_000 + b'", "list": [' + b",".join([b'{"n": 1}'] * 300_000) + b"]}"
    assert sum(1 for _ in DocumentScanner(io.BytesIO(data), (FieldName("list"), PathWildcard())).values()) == 300_000


def test_value_has_a_size_limit() -> None:
    with pytest.raises(SelectError) as raised:
        found(b"[" + b"1," * 600_000 + b"1]", ())
    assert raised.value.code == "OverMaxRecordSize"
