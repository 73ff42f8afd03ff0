"""The published content schemas accept exactly the valid content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.column_masks import MaskKind
from lakebed.governance.policies.content_schemas import CONTENT_SCHEMAS
from lakebed.governance.policies.restrictions import COLUMN_MASK, RESTRICTION_TYPES, ROW_FILTER, parse_restriction
from lakebed.iceberg.expressions.unbound import PredicateOperation

VALIDATORS = {name: validator_for(json.dumps(schema)) for name, schema in CONTENT_SCHEMAS.items()}


def is_valid(kind: str, document: Any) -> bool:
    if kind == ROW_FILTER and isinstance(document.get("filter"), str):
        # SQL conditions, which a schema cannot describe.
        document = document | {"filter": "a = 1"}
    try:
        parse_restriction(kind, json.dumps(document))
    except InvalidPolicy:
        return False
    return True


def test_each_restricting_type_has_a_schema() -> None:
    assert set(CONTENT_SCHEMAS) == RESTRICTION_TYPES


SCALARS = st.none() | st.booleans() | st.integers(-3, 1001) | st.just(1.5) | st.sampled_from(["", "a", "b"])
NAMES = st.lists(st.sampled_from(["a", "b", "", 3]), max_size=2)
KEYS = ("everyone", "principals", "principal-roles", "except-principals", "except-principal-roles", "other")
RESTRICTS = st.dictionaries(st.sampled_from(KEYS), st.booleans() | NAMES, max_size=3) | SCALARS
FILTERS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["and", "or", "xor"]), "left": inner}, optional={"right": inner}
        ),
        st.fixed_dictionaries({"type": st.just("not")}, optional={"child": inner}),
        st.fixed_dictionaries(
            {"type": st.sampled_from([*PredicateOperation])},
            optional={
                "term": SCALARS,
                "value": SCALARS,
                "values": st.lists(SCALARS, max_size=2) | SCALARS,
            },
        ),
    ),
    max_leaves=4,
)
MASKS = (
    SCALARS
    | st.sampled_from([*MaskKind])
    | st.fixed_dictionaries(
        {"mask": st.sampled_from([*MaskKind, "x"])},
        optional={"value": SCALARS, "salt": SCALARS, "first": SCALARS, "last": SCALARS},
    )
)
COLUMNS = st.dictionaries(st.sampled_from(["a", "b", ""]), MASKS, max_size=2) | SCALARS


def contents(key: str, body: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    good = st.just({"everyone": True})
    return st.fixed_dictionaries(
        {"enable": st.just(True) | SCALARS, "restricts": good | RESTRICTS, key: body},
        optional={"version": st.sampled_from(["2026-11-01", "", None, "2025-02-03", 3]), "extra": SCALARS},
    )


@pytest.mark.parametrize(
    ("kind", "strategy"), [(ROW_FILTER, contents("filter", FILTERS)), (COLUMN_MASK, contents("columns", COLUMNS))]
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=400)
@given(data=st.data())
def test_schema_and_parser_agree(kind: str, strategy: st.SearchStrategy[Any], data: st.DataObject) -> None:
    document = data.draw(strategy)
    assert VALIDATORS[kind].is_valid(document) is is_valid(kind, document)
