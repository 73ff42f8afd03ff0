from __future__ import annotations

import json
from typing import Any

import pytest

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies import AudiencePrincipal, Policy, restriction_for
from lakebed.governance.policies.column_masks import HIDDEN, Mask, MaskKind
from lakebed.governance.policies.restrictions import COLUMN_MASK, ROW_FILTER, parse_restriction
from lakebed.governance.policies.row_filters import column_predicate
from lakebed.iceberg.expressions.unbound import FALSE, PredicateOperation

ANN = AudiencePrincipal("ann")
EU = {"type": "eq", "term": "region", "value": "EU"}


def a_policy(
    number: int, kind: str = ROW_FILTER, *, version: int = 0, content: str | None = None, **body: Any
) -> Policy:
    document = {"enable": True, "restricts": {"principals": ["ann"]}, **body}
    return Policy(
        id=number,
        namespace=("home",),
        name=f"p{number}",
        type=kind,
        inheritable=True,
        description=None,
        content=json.dumps(document) if content is None else content,
        version=version,
        created_ms=0,
        updated_ms=0,
    )


def test_principal_outside_the_audience_is_not_restricted() -> None:
    assert restriction_for([], ANN) is None
    others = a_policy(1, filter=False, restricts={"principals": ["bo"]})
    off = a_policy(2, filter=False, enable=False)
    of_another_kind = a_policy(3, "system.data-compaction")
    assert restriction_for([others, off, of_another_kind], ANN) is None


def test_filters_and_masks_of_all_policies_apply() -> None:
    found = restriction_for(
        [
            a_policy(2, COLUMN_MASK, columns={"Email": "hash", "ssn": "year"}),
            a_policy(1, filter=EU),
            a_policy(4, filter={"type": "not-null", "term": "id"}, version=3),
            a_policy(3, COLUMN_MASK, columns={"email": {"mask": "partial", "first": 1}, "SSN": "null"}),
        ],
        ANN,
    )
    assert found is not None
    assert found.filters == (
        column_predicate(PredicateOperation.EQ, "region", ("EU",)),
        column_predicate(PredicateOperation.NOT_NULL, "id"),
    )
    assert found.masks == {"email": Mask(MaskKind.HASH), "ssn": HIDDEN}
    assert found.policies == ("home.p1 v0", "home.p2 v0", "home.p3 v0", "home.p4 v3")


def key(*policies: Policy, principal: AudiencePrincipal = ANN) -> str:
    found = restriction_for(policies, principal)
    assert found is not None
    return found.key


def test_key_depends_on_policies_and_their_versions() -> None:
    one, two = a_policy(1, filter=EU), a_policy(2, filter=False)
    assert key(one, two) == key(two, one)
    assert key(one, two, a_policy(3, filter=True, restricts={"principals": ["bo"]})) == key(one, two)
    for_all = a_policy(1, filter=EU, restricts={"everyone": True})
    assert key(for_all) == key(for_all, principal=AudiencePrincipal("bo"))
    assert len({key(one), key(two), key(one, two), key(a_policy(1, filter=EU, version=1))}) == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"enable": true}', '{"enable": true, "filter": true}'])
def test_invalid_content_hides_all_rows(content: str) -> None:
    found = restriction_for([a_policy(1, content=content)], AudiencePrincipal("another principal"))
    assert found is not None
    assert found.filters == (FALSE,)


@pytest.mark.parametrize(
    ("kind", "document", "path"),
    [
        (ROW_FILTER, [], "$"),
        (ROW_FILTER, {}, "$.enable"),
        (ROW_FILTER, {"enable": 1}, "$.enable"),
        (ROW_FILTER, {"enable": True}, "$.restricts"),
        (ROW_FILTER, {"enable": True, "restricts": {"everyone": True}}, "$.filter"),
        (ROW_FILTER, {"enable": True, "restricts": {"everyone": True}, "filter": {"type": "x"}}, "$.filter.type"),
        (ROW_FILTER, {"enable": True, "restricts": {"everyone": True}, "columns": {}}, "$.columns"),
        (ROW_FILTER, {"enable": True, "version": "1", "restricts": {"everyone": True}, "filter": True}, "$.version"),
        (COLUMN_MASK, {"enable": True, "restricts": {"everyone": True}}, "$.columns"),
        (COLUMN_MASK, {"enable": True, "restricts": {"everyone": True}, "columns": {"a": "x"}}, "$.columns.a.mask"),
        (COLUMN_MASK, {"enable": True, "restricts": {"everyone": True}, "filter": True}, "$.filter"),
    ],
)
def test_errors_have_a_json_path(kind: str, document: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse_restriction(kind, json.dumps(document))
    assert refused.value.argument == path
