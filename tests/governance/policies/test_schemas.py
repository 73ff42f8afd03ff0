from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.json_documents import MAX_DEPTH, MAX_DOCUMENT_BYTES
from lakebed.governance.policies.schemas import MAX_PARTS, check_against, check_schema

RETENTION: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["days"],
    "properties": {
        "days": {"type": "integer", "minimum": 1},
        "owner": {"type": "string", "pattern": "^[a-z]+@[a-z.]+$"},
        "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
        "also-this": {"enum": ["a", "b"]},
    },
    "additionalProperties": False,
    "$defs": {"step": {"type": "object", "properties": {"days": {"type": "integer"}}}},
}


def fault_of(schema: object, document: object) -> str | None:
    """The path of the error in a content; None if it is valid."""
    try:
        check_against(check_schema(schema), json.dumps(document))
    except InvalidPolicy as refused:
        return refused.argument
    return None


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"days": 5}, None),
        ({"days": 5, "owner": "me@example.com", "steps": [{"days": 1}, {}]}, None),
        ({}, "$.days"),
        ([], "$"),
        ({"days": 0}, "$.days"),
        ({"days": "5"}, "$.days"),
        ({"days": 5, "owner": "unknown"}, "$.owner"),
        ({"days": 5, "steps": [{"days": 1}, {"days": "2"}]}, "$.steps[1].days"),
        ({"days": 5, "also-this": "c"}, "$['also-this']"),
        ({"days": 5, "more": 1}, "$.more"),
    ],
)
def test_content_is_validated_against_the_schema(document: object, path: str | None) -> None:
    assert fault_of(RETENTION, document) == path


def test_content_must_be_json() -> None:
    encoded = check_schema({})
    for text in (None, "", "{"):
        with pytest.raises(InvalidPolicy) as refused:
            check_against(encoded, text)
        assert refused.value.argument == "$"
    check_against(encoded, "5")


def test_error_message_is_shortened() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        check_against(check_schema({"type": "string"}), json.dumps(["x" * 1000] * 10))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ([], "$.schema"),
        ({"type": "nothing"}, "$.schema.type"),
        ({"properties": {"a": {"minimum": "1"}}}, "$.schema.properties.a.minimum"),
        ({"properties": {"a": {"pattern": "("}}}, "$.schema.properties.a.pattern"),
        ({"$schema": "https://example.com/mine"}, "$.schema['$schema']"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "$.schema['$schema']"),
        ({"not": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}, "$.schema.not['$schema']"),
        ({"$ref": "https://example.com/other.json"}, "$.schema['$ref']"),
        ({"$ref": "file:///etc/passwd"}, "$.schema['$ref']"),
        ({"$ref": "other.json#/a"}, "$.schema['$ref']"),
        ({"$ref": "#/$defs/none"}, "$.schema['$ref']"),
        ({"$ref": "#step"}, "$.schema['$ref']"),
        ({"$id": "https://example.com/a"}, "$.schema['$id']"),
        ({"not": {"$anchor": "a"}}, "$.schema.not['$anchor']"),
        ({"$dynamicRef": "#a"}, "$.schema['$dynamicRef']"),
    ],
)
def test_invalid_or_external_schema_is_refused(schema: object, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        check_schema(schema)
    assert refused.value.argument == path


@pytest.mark.parametrize("dialect", ["2020-12/schema", "2019-09/schema"])
def test_accepted_dialects(dialect: str) -> None:
    check_schema({"$schema": f"https://json-schema.org/draft/{dialect}"})
    check_schema({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"child": {"$ref": "#"}}},
        {"properties": {"default": {"$ref": "#/properties"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/%24defs/a"}}}},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a~0"}]}, "a~": {"items": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_recursive_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        check_schema(schema)
    assert "itself" in str(refused.value)


def doubling(levels: int) -> dict[str, Any]:
    """A small schema that is large with its references expanded."""
    parts: dict[str, Any] = {
        f"p{level}": {"allOf": [{"$ref": f"#/$defs/p{level + 1}"}, {"$ref": f"#/$defs/p{level + 1}"}]}
        for level in range(levels)
    }
    return {"$defs": {**parts, f"p{levels}": {"type": "integer"}}, "$ref": "#/$defs/p0"}


def test_expanded_size_of_a_schema_is_limited() -> None:
    assert fault_of(doubling(4), 5) is None
    assert fault_of(doubling(4), "x") == "$"
    for levels in (12, 60, 200):
        with pytest.raises(InvalidPolicy):
            check_schema(doubling(levels))
    with pytest.raises(InvalidPolicy):
        check_schema({"enum": list(range(MAX_PARTS))})
    with pytest.raises(InvalidPolicy):
        check_schema({"description": "x" * MAX_DOCUMENT_BYTES})
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        deep = {"not": deep}
    check_schema(deep)
    with pytest.raises(InvalidPolicy) as refused:
        check_schema({"not": deep})
    assert refused.value.argument == "$.schema"


def test_long_chain_of_references_is_refused() -> None:
    parts = {f"p{number}": {"not": {"$ref": f"#/$defs/p{number + 1}"}} for number in range(700)}
    with pytest.raises(InvalidPolicy):
        check_schema({"$ref": "#/$defs/p0", "$defs": {**parts, "p700": {}}})


def test_unevaluated_keywords_count_their_cost() -> None:
    """Nested, each of them multiplies the work: eighteen take seconds for a list of ten."""
    once: dict[str, Any] = {"anyOf": [{"prefixItems": [{}]}, {"type": "null"}], "unevaluatedItems": False}
    assert fault_of(once, [1]) is None
    assert fault_of(once, [1, 2]) is not None
    schema: dict[str, Any] = {"items": {}}
    for _ in range(18):
        schema = {"anyOf": [schema, {"type": "null"}], "unevaluatedItems": False}
    with pytest.raises(InvalidPolicy):
        check_schema(schema)


def test_large_content_with_a_large_schema_is_refused() -> None:
    large = check_schema({"allOf": [{"items": {"type": "integer"}} for _ in range(1000)]})
    check_against(large, json.dumps([5] * 1000))
    with pytest.raises(InvalidPolicy) as refused:
        check_against(large, json.dumps([5] * 10_000))
    assert refused.value.argument == "$"
    check_against(check_schema({"items": {"type": "integer"}}), json.dumps([5] * 10_000))


def test_patterns_do_not_backtrack() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert fault_of(schema, "a" * 60_000) is None
    assert fault_of(schema, "a" * 60_000 + "b") == "$"
    with pytest.raises(InvalidPolicy):
        check_schema({"pattern": r"(a)\1"})


SCHEMAS = st.recursive(
    st.booleans() | st.sampled_from([{}, {"type": "integer"}, {"$ref": "#/$defs/a"}, {"$ref": "#"}]),
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)})
        | st.fixed_dictionaries({"items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=6,
)


@given(
    schema=st.fixed_dictionaries({"$defs": st.dictionaries(st.sampled_from(["a", "b"]), SCHEMAS), "not": SCHEMAS}),
    text=st.text(max_size=20) | st.sampled_from(["{}", "[]", '{"a": {"b": 1}}', "1"]),
)
def test_any_schema_and_text_is_accepted_or_refused(schema: dict[str, Any], text: str) -> None:
    with suppress(InvalidPolicy):
        check_against(check_schema(schema), text)
