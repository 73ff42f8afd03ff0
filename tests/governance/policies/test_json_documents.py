from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.json_documents import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    json_path,
    policy_fault,
    read_document,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), "$"),
        (("enable",), "$.enable"),
        (("config", "target_file_size_bytes"), "$.config.target_file_size_bytes"),
        (("config", "min-input-files"), "$.config['min-input-files']"),
        (("locations", 2), "$.locations[2]"),
        (("it's", "a\\b", ""), r"$['it\'s']['a\\b']['']"),
    ],
)
def test_paths_follow_rfc_9535(steps: tuple[str | int, ...], path: str) -> None:
    assert json_path(steps) == path


def test_error_has_a_path_and_a_shortened_value() -> None:
    error = policy_fault(("a",), "must be short", "x" * 1000)
    assert error.argument == "$.a"
    assert str(error).startswith('$.a: must be short. found="xxx')
    assert len(str(error)) < 150
    assert str(policy_fault((), "is missing")) == "$: is missing"


@given(JSON)
def test_documents_round_trip(document: object) -> None:
    assert read_document(json.dumps(document)) == document


@given(st.text() | st.none())
def test_any_text_is_parsed_or_refused(text: str | None) -> None:
    with suppress(InvalidPolicy):
        read_document(text)


@pytest.mark.parametrize("text", [None, "", "  \n", "{", "nope", "{'a': 1}", '"\udc80"', "[" * 100_000])
def test_invalid_json_is_refused_at_the_root(text: str | None) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read_document(text)
    assert refused.value.argument == "$"


def test_size_and_depth_are_limited() -> None:
    assert read_document(" " * (MAX_DOCUMENT_BYTES - 2) + "{}") == {}
    with pytest.raises(InvalidPolicy):
        read_document(" " * (MAX_DOCUMENT_BYTES - 1) + "{}")
    assert read_document("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    with pytest.raises(InvalidPolicy):
        read_document("[" * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1))
