from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.document import MAX_POLICY_BYTES, parse_policy
from lakebed.governance.policy_language.principal_element import GrantScope
from tests.governance.documents import policy, statement


def none(key: str) -> None:
    return None


def applies(written: Mapping[str, object], action: str, resource: str, **found: str) -> bool:
    (only,) = parse_policy(policy(written)).statements
    return only.applies(action.lower(), resource, lambda key: (found[key],) if key in found else None)


@pytest.mark.parametrize(
    ("written", "action", "resource", "expected"),
    [
        (statement(), "s3:GetObject", "arn:aws:s3:::bucket/key", True),
        (statement(), "s3:GetObject", "arn:aws:s3:::bucket", False),
        (statement(), "s3:GetObject", "arn:aws:s3:::bucket2/key", False),
        (statement(), "s3:GetObject", "arn:aws:s3:::BUCKET/key", False),
        (statement(), "s3:PutObject", "arn:aws:s3:::bucket/key", False),
        (statement(action="S3:getOBJECT"), "s3:GetObject", "arn:aws:s3:::bucket/key", True),
        (statement(action="s3:Get*"), "s3:GetObjectVersion", "arn:aws:s3:::bucket/key", True),
        (statement(action="s3:?etObject"), "s3:GetObject", "arn:aws:s3:::bucket/key", True),
        (statement(action="*"), "s3:GetObject", "arn:aws:s3:::bucket/key", True),
        (statement(action=["s3:A", "s3:GetObject"]), "s3:GetObject", "arn:aws:s3:::bucket/key", True),
        (statement(resource="*"), "s3:GetObject", "arn:aws:s3:::any/key", True),
        (statement(resource=["arn:aws:s3:::a", "arn:aws:s3:::b/*"]), "s3:GetObject", "arn:aws:s3:::b/k", True),
        (statement(resource="arn:aws:s3:::bucket/a/*/z"), "s3:GetObject", "arn:aws:s3:::bucket/a/b/c/z", True),
        (statement(resource="arn:aws:s3:::bucket/*"), "s3:GetObject", "arn:aws:s3:::bucket/line\nbreak", True),
        (statement(resource="arn:aws:s3:::bucket/${*}"), "s3:GetObject", "arn:aws:s3:::bucket/x", False),
    ],
)
def test_statement_applies(written: dict[str, object], action: str, resource: str, expected: bool) -> None:
    assert applies(written, action, resource) is expected


def negated(**elements: object) -> dict[str, object]:
    return {"Effect": "Deny", **elements}


def test_not_action_applies_to_all_other_actions() -> None:
    written = negated(NotAction=["s3:Get*"], Resource="*")
    assert applies(written, "s3:PutObject", "arn:aws:s3:::b/k")
    assert not applies(written, "s3:GetObject", "arn:aws:s3:::b/k")


def test_not_resource_applies_to_all_other_resources() -> None:
    written = negated(Action="s3:*", NotResource=["arn:aws:s3:::b/open/*"])
    assert applies(written, "s3:GetObject", "arn:aws:s3:::b/k")
    assert not applies(written, "s3:GetObject", "arn:aws:s3:::b/open/k")


def test_all_conditions_must_hold() -> None:
    written = statement(condition={"StringEquals": {"aws:a": "1", "aws:b": "2"}, "StringLike": {"aws:c": "3*"}})
    resource = "arn:aws:s3:::bucket/k"
    good = {"aws:a": "1", "aws:b": "2", "aws:c": "33"}
    assert applies(written, "s3:GetObject", resource, **good)
    for key in good:
        assert not applies(written, "s3:GetObject", resource, **(good | {key: "x"}))


def test_condition_values_can_be_json_booleans_and_numbers() -> None:
    written = statement(condition={"Bool": {"aws:SecureTransport": True}, "NumericLessThan": {"s3:max-keys": 10}})
    found = {"aws:securetransport": "true", "s3:max-keys": "5"}
    assert applies(written, "s3:GetObject", "arn:aws:s3:::bucket/k", **found)


def test_single_statement_need_not_be_in_a_list() -> None:
    document = json.dumps({"Version": "2012-10-17", "Id": "x", "Statement": statement()}).encode()
    assert parse_policy(document).id == "x"
    assert len(parse_policy(document).grants) == 1


def test_same_bytes_are_compiled_once() -> None:
    document = policy(statement(Sid="once"))
    assert parse_policy(document) is parse_policy(bytes(bytearray(document)))


HOME = "arn:aws:s3:::b/${aws:username}/*"


def test_only_the_newer_version_has_variables() -> None:
    new, old = policy(statement(resource=HOME)), policy(statement(resource=HOME), version="2008-10-17")
    for document, expected in ((new, True), (old, False)):
        (only,) = parse_policy(document).grants
        assert only.applies("s3:getobject", "arn:aws:s3:::b/bob/x", lambda key: ("bob",)) is expected


def test_document_without_a_version_has_the_older_version() -> None:
    document = json.dumps({"Statement": [statement(resource=HOME)]}).encode()
    assert parse_policy(document).version == "2008-10-17"


def test_allow_that_negates_an_unresolved_variable_never_applies() -> None:
    allow = {"Effect": "Allow", "Action": "s3:*", "NotResource": HOME}
    assert not applies(allow, "s3:GetObject", "arn:aws:s3:::b/eve/x")
    assert applies(allow, "s3:GetObject", "arn:aws:s3:::b/eve/x", **{"aws:username": "bob"})
    unequal = statement(condition={"StringNotEquals": {"s3:prefix": "${aws:username}"}})
    assert not applies(unequal, "s3:GetObject", "arn:aws:s3:::bucket/x", **{"s3:prefix": "p"})


def test_deny_that_negates_an_unresolved_variable_always_applies() -> None:
    assert applies({"Effect": "Deny", "Action": "s3:*", "NotResource": HOME}, "s3:GetObject", "arn:aws:s3:::b/eve/x")


def test_allow_with_another_resource_applies_despite_an_unresolved_variable() -> None:
    assert applies(statement(resource=[HOME, "arn:aws:s3:::b/public/*"]), "s3:GetObject", "arn:aws:s3:::b/public/x")


def test_statement_without_principal_grants_nothing_on_a_resource() -> None:
    (only,) = parse_policy(policy(statement())).grants
    assert only.grant(ANONYMOUS) is GrantScope.NONE
    assert not only.denies(ANONYMOUS)


def test_allow_with_not_principal_grants_nothing() -> None:
    (only,) = parse_policy(policy(statement(NotPrincipal={"AWS": "111122223333"}))).grants
    assert only.grant(ANONYMOUS) is GrantScope.NONE


def without(element: str) -> dict[str, object]:
    written = statement()
    del written[element]
    return written


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON: line 1 column 2"),
        (b'{\n  "Version": "2012-10-17"\n  "Statement": []\n}', "not valid JSON: line 3 column 3: expecting ','"),
        (b"\xff{}", "not valid JSON"),
        ('{"Version": "2012-10-17"}'.encode("utf-16"), "not valid JSON"),
        (b"[" * 15_000, "not valid JSON"),
        (b"[]", "JSON object"),
        (b'"x"', "JSON object"),
        (b"{}", "at least one Statement"),
        (b'{"Statement": []}', "at least one Statement"),
        (b'{"Statement": "x"}', "at least one Statement"),
        (b'{"Statement": ["x"]}', "statement must be a JSON object"),
        (b'{"Statement": [{}], "Statement": [{}]}', "repeats a name"),
        (b'{"Version": NaN}', "not JSON"),
        (b'{"Version": "2020-01-01", "Statement": [{}]}', "unknown policy version"),
        (b'{"Version": 2012, "Statement": [{}]}', "Version must be a string"),
        (b'{"version": "2012-10-17"}', "unknown element in policy"),
        (b'{"Id": 1, "Statement": [{"Effect": "Allow", "Action": "a:b", "Resource": "*"}]}', "Id must be a string"),
        (policy(statement(effect="allow")), "Effect"),
        (policy(without("Effect")), "Effect"),
        (policy(without("Action")), "Action or NotAction"),
        (policy(without("Resource")), "Resource or NotResource"),
        (policy(statement(NotAction="s3:*")), "both Action and NotAction"),
        (policy(statement(NotResource="*")), "both Resource and NotResource"),
        (policy(statement(principal="*", NotPrincipal="*")), "both Principal and NotPrincipal"),
        (policy(statement(Sid=1)), "Sid must be a string"),
        (policy(statement(Sid="\ud800")), "unpaired surrogate"),
        (policy(statement(Conditions={})), "unknown element in statement"),
        (policy(statement(action=[])), "Action must not be empty"),
        (policy(statement(action=1)), "Action must be a string"),
        (policy(statement(action=["s3:GetObject", None])), "Action must be a string"),
        (policy(statement(action="GetObject")), "service:name"),
        (policy(statement(action="s3:")), "service:name"),
        (policy(statement(action=":GetObject")), "service:name"),
        (policy(statement(action="")), "service:name"),
        (policy(statement(resource="bucket/*")), "an ARN"),
        (policy(statement(resource="arn:aws:s3")), "an ARN"),
        (policy(statement(resource=[])), "Resource must not be empty"),
        (policy(statement(resource={"a": "b"})), "Resource must be a string"),
        (policy(statement(resource="arn:aws:s3:::b/${x")), "variable"),
        (policy(statement(condition=[])), "condition must be a JSON object"),
        (policy(statement(condition={"StringEquals": "x"})), "keys and values"),
        (policy(statement(condition={"StringEquals": {}})), "keys and values"),
        (policy(statement(condition={"StringEquals": {"aws:a": []}})), "no values"),
        (policy(statement(condition={"StringEquals": {"aws:a": None}})), "must be a string"),
        (policy(statement(condition={"StringEquals": {"aws:a": [["x"]]}})), "must be a string"),
        (policy(statement(principal={"AWS": "unknown"})), "invalid principal"),
        (policy(statement(Sid="x" * MAX_POLICY_BYTES)), "too large"),
    ],
)
def test_malformed_document_is_refused_with_the_reason(document: bytes, reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=reason):
        parse_policy(document)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(document: bytes) -> None:
    with pytest.raises(InvalidPolicy):
        parse_policy(document)


NAMES = st.sampled_from(
    [
        "Version",
        "Id",
        "Sid",
        "Effect",
        "Principal",
        "Action",
        "NotAction",
        "Resource",
        "Condition",
        "Statement",
        "AWS",
        "StringEquals",
        "NumericLessThan",
        "ForAllValues:StringLikeIfExists",
        "IpAddress",
        "DateEquals",
        "aws:a",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["Allow", "Deny", "2012-10-17", "*", "s3:*", "arn:aws:s3:::b/${aws:username}/*", "10.0.0.0/8"])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=25
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    written=st.fixed_dictionaries(
        {"Effect": st.sampled_from(["Allow", "Deny"]), "Action": TREES, "Resource": TREES},
        optional={"Principal": TREES, "Condition": TREES, "Sid": TREES},
    )
)
def test_parser_returns_a_policy_or_raises_invalid_policy(written: dict[str, object]) -> None:
    try:
        parsed = parse_policy(json.dumps({"Version": "2012-10-17", "Statement": [written]}).encode())
    except InvalidPolicy:
        return
    (only,) = parsed.statements
    only.applies("s3:getobject", "arn:aws:s3:::b/k", none)
