from __future__ import annotations

import base64
import json
import os

import botocore.session
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.s3.post_policy import (
    ANY_SIZE,
    ConditionOperator,
    FieldCondition,
    PostPolicy,
    SizeRange,
    parse_post_policy,
)

EXPIRES = "2030-01-02T03:04:05.678Z"
EXPIRES_MS = 1_893_553_445_678
FIELDS = {"bucket": "b", "key": "user/a.txt", "content-type": "image/png"}
CONDITIONS: list[object] = [{"bucket": "b"}, ["starts-with", "$key", "user/"], {"Content-Type": "image/png"}]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def parse(conditions: object, expiration: object = EXPIRES) -> PostPolicy:
    return parse_post_policy(encoded(json.dumps({"expiration": expiration, "conditions": conditions})))


def denial_of(policy: PostPolicy, fields: dict[str, str], now_ms: int = 0) -> str:
    with pytest.raises(AwsFault) as caught:
        policy.check(fields, now_ms)
    assert (caught.value.status, caught.value.code) == (403, "AccessDenied")
    return str(caught.value).removeprefix("Invalid according to Policy: ")


def test_form_that_satisfies_its_policy_passes_until_the_expiration() -> None:
    policy = parse(CONDITIONS)
    assert policy.expires_ms == EXPIRES_MS
    policy.check(FIELDS, EXPIRES_MS)
    assert denial_of(policy, FIELDS, EXPIRES_MS + 1) == "Policy expired."


def test_names_and_operators_are_case_insensitive_but_values_are_not() -> None:
    policy = parse([{"bUcKeT": "b"}, ["StArTs-WiTh", "$KeY", "user/"], ["EQ", "$CONTENT-type", "image/png"]])
    policy.check(FIELDS, 0)
    assert denial_of(policy, {**FIELDS, "key": "User/a.txt"}) == (
        'Policy Condition failed: ["starts-with","$key","user/"]'
    )


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ({"x-amz-meta-a": "1"}, "2"),
        ({"x-amz-meta-a": "1"}, "11"),
        ({"x-amz-meta-a": ""}, "1"),
        (["eq", "$x-amz-meta-a", "1"], ""),
        (["starts-with", "$x-amz-meta-a", "1"], "21"),
        (["starts-with", "$x-amz-meta-a", ""], None),
        (["eq", "$x-amz-meta-a", ""], None),
    ],
)
def test_different_or_missing_field_fails_its_condition(condition: object, value: str | None) -> None:
    policy = parse([*CONDITIONS, condition])
    fields = FIELDS if value is None else {**FIELDS, "x-amz-meta-a": value}
    assert denial_of(policy, fields).startswith("Policy Condition failed: [")


def test_name_without_a_dollar_sign_matches_no_field() -> None:
    assert denial_of(parse([*CONDITIONS, ["eq", "key", "user/a.txt"]]), FIELDS) == (
        'Policy Condition failed: ["eq","key","user/a.txt"]'
    )


def test_all_conditions_on_a_field_apply() -> None:
    policy = parse([*CONDITIONS, ["starts-with", "$key", "user/a"], ["starts-with", "$key", ""]])
    policy.check(FIELDS, 0)
    assert denial_of(policy, {**FIELDS, "key": "user/b"}).startswith("Policy Condition failed")


def test_each_of_several_content_types_must_have_the_prefix() -> None:
    policy = parse([{"bucket": "b"}, ["starts-with", "$key", ""], ["starts-with", "$Content-Type", "image/"]])
    policy.check({**FIELDS, "content-type": "image/png,image/gif"}, 0)
    assert denial_of(policy, {**FIELDS, "content-type": "image/png,text/html"}).startswith("Policy Condition failed")


def test_comma_has_no_meaning_in_other_fields() -> None:
    parse(CONDITIONS).check({**FIELDS, "key": "user/a,b"}, 0)


@pytest.mark.parametrize("name", ["x-amz-meta-b", "acl", "tagging", "success_action_redirect", "x-amz-date", "submit"])
def test_field_without_a_condition_is_rejected(name: str) -> None:
    assert denial_of(parse(CONDITIONS), {**FIELDS, name: ""}) == f"Extra input fields: {name}"


def test_policy_without_a_bucket_condition_is_rejected() -> None:
    assert denial_of(parse(CONDITIONS[1:]), FIELDS) == "Extra input fields: bucket"


def test_signature_policy_and_ignored_fields_need_no_condition() -> None:
    parse(CONDITIONS).check({**FIELDS, "policy": "…", "x-amz-signature": "…", "x-ignore-button": "Go"}, 0)


def test_policy_of_a_real_client_is_satisfied_by_its_form() -> None:
    session = botocore.session.get_session()
    session.set_config_variable("config_file", os.devnull)
    client = session.create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url="http://127.0.0.1:9",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=Config(signature_version="s3v4"),
    )
    post = client.generate_presigned_post(
        "b",
        "user/${filename}",
        Fields={"acl": "private", "success_action_status": "201"},
        Conditions=[{"acl": "private"}, {"success_action_status": "201"}, ["content-length-range", 1, 9]],
    )
    client.close()
    policy = parse_post_policy(post["fields"]["policy"])
    fields = {**{name.lower(): value for name, value in post["fields"].items()}, "bucket": "b", "key": "user/a.txt"}
    policy.check(fields, 0)
    assert policy.size == SizeRange(1, 9)
    assert denial_of(policy, {**fields, "x-amz-date": "20200101T000000Z"}).startswith("Policy Condition failed")


def test_size_ranges_are_checked_while_and_after_receiving() -> None:
    allowed = parse([["content-length-range", 2, 4], ["content-length-range", "1", "3"]]).size
    assert allowed == SizeRange(2, 3)
    allowed.check_so_far(0)
    allowed.check_so_far(3)
    allowed.check_whole(2)
    allowed.check_whole(3)
    for check, size, code in [
        (allowed.check_so_far, 4, "EntityTooLarge"),
        (allowed.check_whole, 4, "EntityTooLarge"),
        (allowed.check_whole, 1, "EntityTooSmall"),
    ]:
        with pytest.raises(AwsFault) as caught:
            check(size)
        assert (caught.value.status, caught.value.code) == (400, code)
        assert caught.value.details["ProposedSize"] == str(size)


def test_any_size_is_allowed_without_a_range() -> None:
    policy = parse(CONDITIONS)
    assert policy.size == ANY_SIZE
    policy.size.check_whole(0)
    policy.size.check_whole(2**60)


@pytest.mark.parametrize(
    ("text", "value"),
    [(r"\$foo", "$foo"), (r"\\$foo", r"\$foo"), (r"a\vb", "a\x0bb"), (r"\\v", r"\v"), (r"\u00fc\n", "ü\n")],
)
def test_policies_allow_two_escapes_beyond_json(text: str, value: str) -> None:
    policy = parse_post_policy(encoded(f'{{"expiration":"{EXPIRES}","conditions":[["eq","$key","{text}"]]}}'))
    assert policy.conditions == (FieldCondition(ConditionOperator.EQUAL, "key", value),)


@given(st.text(max_size=60))
def test_any_value_matches_itself(value: str) -> None:
    condition = parse([["eq", "$key", value]]).conditions[0]
    assert condition.value == value
    assert condition.is_met_by(value)
    assert json.loads(condition.text) == ["eq", "$key", value]


def test_line_breaks_in_base64_are_ignored() -> None:
    text = base64.encodebytes(json.dumps({"expiration": EXPIRES, "conditions": CONDITIONS}).encode()).decode()
    assert "\n" in text
    parse_post_policy(text).check(FIELDS, 0)


@pytest.mark.parametrize(
    ("expiration", "expires_ms"),
    [("2030-01-02T03:04:05Z", 1_893_553_445_000), ("2030-01-02T05:04:05.678901+02:00", EXPIRES_MS + 1)],
)
def test_other_time_formats_are_accepted(expiration: str, expires_ms: int) -> None:
    assert parse([], expiration).expires_ms == expires_ms


@pytest.mark.parametrize(
    "expiration",
    [
        None,
        1_893_553_445,
        "",
        "2030-01-02",
        "2030-01-02 03:04:05+00:00",
        "2030-01-02T03:04:05",
        "2030-13-02T03:04:05Z",
        "Wed, 02 Jan 2030 03:04:05 GMT",
    ],
)
def test_policy_without_a_valid_expiration_is_invalid(expiration: object) -> None:
    with pytest.raises(AwsFault) as caught:
        parse([], expiration)
    assert (caught.value.status, caught.value.code) == (400, "InvalidPolicyDocument")


@pytest.mark.parametrize(
    "conditions",
    [
        None,
        {},
        "eq",
        [{}],
        [{"bucket": "b", "key": "k"}],
        [{"success_action_status": 201}],
        [[]],
        [["eq", "$key"]],
        [["eq", "$key", "a", "b"]],
        [["eq", "$key", 1]],
        [["ends-with", "$key", "a"]],
        [[1, "$key", "a"]],
        ["key"],
        [["content-length-range", 0]],
        [["content-length-range", -1, 0]],
        [["content-length-range", 2, 1]],
        [["content-length-range", True, 1]],
        [["content-length-range", 0.5, 1]],
        [["content-length-range", "a", 1]],
    ],
)
def test_malformed_conditions_are_invalid(conditions: object) -> None:
    with pytest.raises(AwsFault) as caught:
        parse(conditions)
    assert (caught.value.status, caught.value.code) == (400, "InvalidPolicyDocument")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 15_000,
        f'{{"expiration":"{EXPIRES}"}}',
        '{"conditions":[]}',
        f'{{"expiration":"{EXPIRES}","CONDITIONS":[]}}',
        f'{{"EXPIRATION":"{EXPIRES}","conditions":[]}}',
        f'{{"expiration":"{EXPIRES}","conditions":[],"more":1}}',
    ],
)
def test_element_names_are_case_sensitive_and_no_others_are_allowed(text: str) -> None:
    with pytest.raises(AwsFault) as caught:
        parse_post_policy(encoded(text))
    assert caught.value.code == "InvalidPolicyDocument"


@given(st.text(max_size=40) | st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode()))
def test_random_text_is_an_invalid_policy(text: str) -> None:
    with pytest.raises(AwsFault) as caught:
        parse_post_policy(text)
    assert caught.value.code == "InvalidPolicyDocument"
