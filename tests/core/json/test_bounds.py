from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.json.bounds import check_json_bounds

DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text('[{}]"\\,:a é', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[{"\\', max_size=4), inner, max_size=4),
    max_leaves=20,
)


def depth(document: Any) -> int:
    if isinstance(document, dict):
        document = list(document.values())
    return 1 + max(map(depth, document), default=0) if isinstance(document, list) else 0


@given(DOCUMENTS)
@example(["]", []])
@example(['\\"]', {"[": [{}]}])
def test_depth_ignores_brackets_in_strings(document: Any) -> None:
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False, indent=1)):
        encoded = text.encode()
        check_json_bounds(encoded, max_depth=depth(document))
        if depth(document):
            with pytest.raises(InvalidInput, match="nested too deeply"):
                check_json_bounds(encoded, max_depth=depth(document) - 1)


@pytest.mark.parametrize("text", [b"[" * 901, b'{"a":' * 901, b'"' + b"[" * 901, b"[" * 100_000 + b"]" * 100_000])
def test_deep_nesting_is_rejected_also_in_invalid_json(text: bytes) -> None:
    if text.startswith(b'"'):
        check_json_bounds(text)  # a string, which the parser rejects
    else:
        with pytest.raises(InvalidInput, match="nested too deeply"):
            check_json_bounds(text)


def test_values_are_counted() -> None:
    check_json_bounds(json.dumps(list(range(999))).encode(), max_values=1000)
    with pytest.raises(InvalidInput, match=r"too many values. limit=1000"):
        check_json_bounds(json.dumps(list(range(1000))).encode(), max_values=1000)
    with pytest.raises(InvalidInput, match="too many values"):
        check_json_bounds(b"[" * 950 + b'"' * 5000, max_values=1000)


@given(st.binary(max_size=300))
def test_any_bytes_are_checked_without_other_errors(noise: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        check_json_bounds(noise, max_depth=3, max_values=20)
