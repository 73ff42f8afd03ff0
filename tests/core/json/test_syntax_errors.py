from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.json.syntax_errors import describe_json_error


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        (b"", "line 1 column 1: expecting value"),
        (b'{"a": 1,\n "b" 2}', "line 2 column 6: expecting ':' delimiter"),
        (b'{\n  "Statement": [\n    {"Effect": "Allow"}\n    {}\n  ]\n}', "line 4 column 5: expecting ',' delimiter"),
        (b'{"a":\n "\xff"}', "line 2 column 3: not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "valid JSON, but not of the expected structure"),
    ],
)
def test_syntax_error_has_line_and_column(text: bytes, explained: str) -> None:
    assert describe_json_error(text) == explained


@given(st.binary(max_size=60))
def test_any_invalid_bytes_are_explained(text: bytes) -> None:
    assert describe_json_error(text)
