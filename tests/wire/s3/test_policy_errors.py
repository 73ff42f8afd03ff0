from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.wire.s3.policy_errors import policy_problem

LANGUAGE = PolicyAuthorizer(ManualClock())
BUCKET = "bucket"
BUCKET_ARN = f"arn:aws:s3:::{BUCKET}"
INAPPLICABLE = "Conditions do not apply to combination of actions and resources in statement"
VALID = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"{BUCKET_ARN}/*"}


def problem_of(**changes: object) -> str | None:
    statement = {name: value for name, value in {**VALID, **changes}.items() if value is not None}
    document = json.dumps({"Version": "2012-10-17", "Statement": [VALID, statement]}).encode()
    with pytest.raises(InvalidPolicy):
        LANGUAGE.check_bucket_policy(document, BUCKET)
    return policy_problem(LANGUAGE, document, BUCKET)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"Effect": "Perhaps"}, "Invalid effect: Perhaps"),
        ({"Resource": []}, "Policy has invalid resource"),
        ({"Resource": "arn:aws:s3:::another/*"}, "Policy has invalid resource"),
        ({"Resource": None, "NotResource": 7}, "Policy has invalid resource"),
        ({"Action": "s3:GetObjekt"}, "Policy has invalid action"),
        ({"Action": None}, "Policy has invalid action"),
        ({"Action": "s3:ListBucket"}, "Action does not apply to any resource(s) in statement"),
        ({"Resource": BUCKET_ARN}, "Action does not apply to any resource(s) in statement"),
        ({"Principal": None}, "Invalid principal in policy"),
        ({"Principal": {"AWS": []}}, "Invalid principal in policy"),
        ({"Principal": None, "NotPrincipal": "*"}, "Invalid principal in policy"),
        ({"Condition": {"StringIs": {"aws:UserAgent": "x"}}}, "Invalid Condition type : StringIs"),
        ({"Condition": {"IpAddress": {"aws:SourceIp": "300.1.1.1"}}}, "Invalid IP address in Conditions"),
        ({"Condition": {"Null": {"aws:SourceIp": "true"}}}, "Invalid IP address in Conditions"),
        ({"Condition": {"NullIfExists": {"aws:SourceIp": "true"}}}, "Invalid Condition type : NullIfExists"),
        ({"Condition": {"StringEquals": {"x:y": "z"}}}, "Policy has an invalid condition key"),
        ({"Condition": {"NumericEquals": {"s3:NotARealKey": "5"}}}, "Policy has an invalid condition key"),
        ({"Condition": {"IpAddress": {"aws:NotARealKey": "10.0.0.0/8"}}}, "Policy has an invalid condition key"),
        ({"Condition": {"StringEquals": {"s3:prefix": "x"}}}, INAPPLICABLE),
        ({"Condition": {"StringEquals": {"AWS:UserAgent": "x", "s3:x-amz-acl": "private"}}}, INAPPLICABLE),
        # Reported before the mismatch of action and resource.
        ({"Action": "s3:ListBucketMultipartUploads", "Condition": {"StringEquals": {"s3:prefix": "x"}}}, INAPPLICABLE),
        (
            {"Action": "s3:ListBucket", "Condition": {"StringEquals": {"s3:prefix": "x"}}},
            "Action does not apply to any resource(s) in statement",
        ),
    ],
)
def test_invalid_element_of_a_statement_is_named(changes: dict[str, object], expected: str) -> None:
    assert problem_of(**changes) == expected


TABLE_BUCKET = f"arn:aws:s3tables:us-east-1:000000000000:bucket/{BUCKET}"
VALID_OF_TABLES = {"Principal": "*", "Effect": "Allow", "Action": "s3tables:GetTable", "Resource": f"{TABLE_BUCKET}/*"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"Action": "s3tables:PutTablePolicy"}, "Policy has invalid action"),
        ({"Resource": f"{TABLE_BUCKET}-2/*"}, "Policy has invalid resource"),
        ({"Resource": TABLE_BUCKET}, "Action does not apply to any resource(s) in statement"),
        ({"Action": "s3:GetObject"}, "Action does not apply to any resource(s) in statement"),
        ({"Condition": {"StringEquals": {"s3tables:colour": "x"}}}, "Policy has an invalid condition key"),
        ({"Condition": {"StringEquals": {"s3:prefix": "x"}}}, INAPPLICABLE),
        ({"Principal": None}, "Invalid principal in policy"),
    ],
)
def test_invalid_element_of_a_table_statement_is_named(changes: dict[str, object], expected: str) -> None:
    statement = {name: value for name, value in {**VALID_OF_TABLES, **changes}.items() if value is not None}
    document = json.dumps({"Version": "2012-10-17", "Statement": [VALID, VALID_OF_TABLES, statement]}).encode()
    with pytest.raises(InvalidPolicy):
        LANGUAGE.check_bucket_policy(document, BUCKET, TABLE_BUCKET)
    assert policy_problem(LANGUAGE, document, BUCKET, TABLE_BUCKET) == expected


def test_table_resource_is_invalid_in_a_bucket_without_tables() -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": [VALID_OF_TABLES]}).encode()
    assert policy_problem(LANGUAGE, document, BUCKET) == "Policy has invalid resource"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            "{true}",
            "This policy contains invalid Json: line 1 column 2: expecting property name enclosed in double quotes",
        ),
        (
            '{\n "Statement": [\n  {"a": 1 "b": 2}]}',
            "This policy contains invalid Json: line 3 column 11: expecting ',' delimiter",
        ),
        ("[]", "Policies must be valid JSON and the first byte must be '{'"),
        ("", "Policies must be valid JSON and the first byte must be '{'"),
        ("{}", "Missing required field Statement"),
        ('{"Statement":[]}', "Could not parse the policy: Statement is empty!"),
        (json.dumps({"Version": "2012-10-16", "Statement": VALID}), "The policy must contain a valid version string"),
    ],
)
def test_invalid_documents_get_specific_messages(document: str, expected: str) -> None:
    assert policy_problem(LANGUAGE, document.encode(), BUCKET) == expected


def test_problem_without_an_s3_message_is_none() -> None:
    assert problem_of(Other=1) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*VALID, "Condition", "NotAction", "NotPrincipal", "Sid"]), json_values))
def test_random_statement_gets_a_message_or_none(changes: dict[str, object]) -> None:
    document = json.dumps({"Statement": [{**VALID, **changes}]}).encode()
    why = policy_problem(LANGUAGE, document, BUCKET)
    assert why is None or why
