from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.conditions import parse_condition


def holds(operator: str, operands: object, found: object, *, key: str = "s3:key") -> bool:
    """Whether the condition holds for a request with these values of the key; None without the key."""
    texts = tuple(operands) if isinstance(operands, list) else (str(operands),)
    have = tuple(found) if isinstance(found, list) else (None if found is None else (str(found),))
    condition = parse_condition(operator, key, texts, variables=True)
    return condition.holds(lambda requested: have if requested == key.lower() else None)


@pytest.mark.parametrize(
    ("operator", "operands", "found", "expected"),
    [
        ("StringEquals", "a", "a", True),
        ("StringEquals", "a", "A", False),
        ("StringEquals", ["a", "b"], "b", True),
        ("StringEquals", "a*", "a*", True),
        ("StringEquals", "a*", "ab", False),
        ("StringEquals", "${*}", "*", True),
        ("StringNotEquals", "a", "b", True),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringEqualsIgnoreCase", "Abc", "aBC", True),
        ("StringEqualsIgnoreCase", "Abc", "abd", False),
        ("StringNotEqualsIgnoreCase", "Abc", "aBC", False),
        ("StringNotEqualsIgnoreCase", "Abc", "x", True),
        ("StringLike", "home/*", "home/a/b", True),
        ("StringLike", "home/?", "home/ab", False),
        ("StringLike", "Home/*", "home/a", False),
        ("StringNotLike", "home/*", "home/a", False),
        ("StringNotLike", "home/*", "else", True),
        ("NumericEquals", "10", "10.0", True),
        ("NumericEquals", "10", "11", False),
        ("NumericEquals", "10", "ten", False),
        ("NumericNotEquals", "10", "11", True),
        ("NumericNotEquals", "10", "1e1", False),
        ("NumericLessThan", "10", "9", True),
        ("NumericLessThan", "10", "10", False),
        ("NumericLessThanEquals", "10", "10", True),
        ("NumericLessThanEquals", "10", "10.5", False),
        ("NumericGreaterThan", "10", "11", True),
        ("NumericGreaterThan", "10", "10", False),
        ("NumericGreaterThanEquals", "10", "10", True),
        ("NumericGreaterThanEquals", "10", "9", False),
        ("NumericLessThan", "100", "20", True),
        ("DateEquals", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", True),
        ("DateEquals", "2026-01-01", "1767225600", True),
        ("DateNotEquals", "2026-01-01", "2026-01-02", True),
        ("DateNotEquals", "2026-01-01", "2026-01-01", False),
        ("DateLessThan", "2026-01-01", "2025-12-31T23:59:59Z", True),
        ("DateLessThan", "2026-01-01", "2026-01-01", False),
        ("DateLessThanEquals", "2026-01-01", "2026-01-01", True),
        ("DateGreaterThan", "2026-01-01", "2026-01-01T00:00:00.001Z", True),
        ("DateGreaterThan", "2026-01-01", "2025-01-01", False),
        ("DateGreaterThanEquals", "2026-01-01", "2026-01-01", True),
        ("DateGreaterThanEquals", "2026-01-01", "yesterday", False),
        ("Bool", "true", "True", True),
        ("Bool", "FALSE", "false", True),
        ("Bool", "true", "false", False),
        ("BinaryEquals", "aGVsbG8=", "aGVsbG8=", True),
        ("BinaryEquals", "aGVsbG8=", "aGVsbHA=", False),
        ("BinaryEquals", "aGVsbG8=", "!", False),
        ("IpAddress", "10.0.0.0/8", "10.1.2.3", True),
        ("IpAddress", "10.0.0.0/8", "11.1.2.3", False),
        ("IpAddress", "10.0.0.1", "10.0.0.1", True),
        ("IpAddress", "10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("IpAddress", "2001:db8::/32", "2001:db8:1::5", True),
        ("IpAddress", "10.0.0.0/8", "2001:db8::1", False),
        ("IpAddress", "10.0.0.0/8", "nowhere", False),
        ("IpAddress", ["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.7", True),
        ("NotIpAddress", "10.0.0.0/8", "10.1.2.3", False),
        ("NotIpAddress", ["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.7", False),
        ("NotIpAddress", "10.0.0.0/8", "11.1.2.3", True),
        ("ArnEquals", "arn:aws:iam::1:user/*", "arn:aws:iam::1:user/a/b", True),
        ("ArnLike", "arn:aws:iam::*:user/a", "arn:aws:iam::1:user/a", True),
        ("ArnLike", "arn:aws:s3:*:a:x", "arn:aws:s3:r:q:a:x", False),
        ("StringLike", "arn:aws:s3:*:a:x", "arn:aws:s3:r:q:a:x", True),
        ("ArnLike", "*", "arn:aws:iam::1:user/a", True),
        ("ArnNotLike", "arn:aws:iam::*:user/a", "arn:aws:iam::1:user/a", False),
        ("ArnNotEquals", "arn:aws:iam::1:user/a", "arn:aws:iam::1:user/b", True),
        ("Null", "true", None, True),
        ("Null", "true", "x", False),
        ("Null", "false", None, False),
        ("Null", "False", "x", True),
    ],
)
def test_operator(operator: str, operands: object, found: object, expected: bool) -> None:
    assert holds(operator, operands, found) is expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("StringEquals", False),
        ("StringLike", False),
        ("NumericEquals", False),
        ("DateLessThan", False),
        ("Bool", False),
        ("BinaryEquals", False),
        ("IpAddress", False),
        ("ArnLike", False),
        ("StringNotEquals", True),
        ("StringNotEqualsIgnoreCase", True),
        ("StringNotLike", True),
        ("NumericNotEquals", True),
        ("DateNotEquals", True),
        ("NotIpAddress", True),
        ("ArnNotEquals", True),
        ("StringEqualsIfExists", True),
        ("StringNotEqualsIfExists", True),
        ("NumericLessThanIfExists", True),
        ("BoolIfExists", True),
        ("ForAllValues:StringEquals", True),
        ("ForAllValues:StringNotEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
        ("ForAnyValue:StringEqualsIfExists", True),
    ],
)
def test_absent_key(operator: str, expected: bool) -> None:
    operand = {
        "Numeric": "1",
        "Date": "2026-01-01",
        "Bool": "true",
        "Binary": "AAAA",
        "IpAddr": "10.0.0.1",
        "NotIp": "10.0.0.1",
        "Arn": "arn:aws:s3:::b",
    }
    bare = operator.rpartition(":")[2]
    value = next((text for start, text in operand.items() if bare.startswith(start)), "a")
    assert holds(operator, value, None) is expected
    assert holds(operator, value, []) is expected


@pytest.mark.parametrize(
    ("operator", "operands", "found", "expected"),
    [
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "b", "a"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
        ("ForAllValues:StringNotEquals", ["a", "b"], ["c", "d"], True),
        ("ForAllValues:StringNotEquals", ["a", "b"], ["c", "a"], False),
        ("ForAnyValue:StringEquals", ["a", "b"], ["x", "b"], True),
        ("ForAnyValue:StringEquals", ["a", "b"], ["x", "y"], False),
        ("ForAnyValue:StringNotEquals", ["a"], ["a", "b"], True),
        ("ForAnyValue:StringNotEquals", ["a", "b"], ["a", "b"], False),
        ("ForAllValues:StringLike", ["a*"], ["ab", "ac"], True),
        ("ForAllValues:StringLikeIfExists", ["a*"], ["b"], False),
        ("StringEquals", ["a"], ["x", "a"], True),
        ("StringNotEquals", ["a"], ["x", "a"], False),
        ("StringNotEquals", ["a"], ["x", "y"], True),
    ],
)
def test_several_values(operator: str, operands: object, found: object, expected: bool) -> None:
    assert holds(operator, operands, found) is expected


@pytest.mark.parametrize("operator", ["StringEqualsIfExists", "NumericEqualsIfExists", "ForAnyValue:StringEquals"])
def test_if_exists_is_evaluated_for_a_present_key(operator: str) -> None:
    assert not holds(operator, "1", "2")
    assert holds(operator, "1", "1")


@pytest.mark.parametrize(
    ("operator", "operand", "reason"),
    [
        ("StringIs", "a", "unknown condition operator"),
        ("stringEquals", "a", "unknown condition operator"),
        ("ForSomeValues:StringEquals", "a", "unknown condition operator"),
        ("ForAllValues:", "a", "unknown condition operator"),
        ("IfExists", "a", "unknown condition operator"),
        ("NullIfExists", "true", "unknown condition operator"),
        ("ForAnyValue:Null", "true", "unknown condition operator"),
        ("BinaryNotEquals", "AAAA", "unknown condition operator"),
        ("NumericEquals", "ten", "not a number"),
        ("NumericEquals", "NaN", "not a number"),
        ("NumericLessThan", "Infinity", "not a number"),
        ("DateEquals", "tomorrow", "not a date"),
        ("Bool", "yes", "true or false"),
        ("Null", "0", "true or false"),
        ("BinaryEquals", "?", "base64"),
        ("IpAddress", "10.0.0.256", "CIDR"),
        ("NotIpAddress", "10.0.0.0/33", "CIDR"),
        ("ArnLike", "arn:aws:s3", "not an ARN"),
        ("StringEquals", "${aws:username", "variable"),
    ],
)
def test_invalid_operand_or_operator_is_refused(operator: str, operand: str, reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=reason):
        parse_condition(operator, "aws:key", (operand,), variables=True)


@pytest.mark.parametrize("key", ["", "key", ":key", "aws:"])
def test_key_without_a_service_is_refused(key: str) -> None:
    with pytest.raises(InvalidPolicy, match="condition key"):
        parse_condition("StringEquals", key, ("a",), variables=True)


def test_variables_in_operands_are_replaced_by_the_requests_values() -> None:
    condition = parse_condition("StringLike", "s3:prefix", ("home/${aws:username}/*",), variables=True)
    found = {"s3:prefix": ("home/bob/x",), "aws:username": ("bob",)}
    assert condition.holds(found.get)
    assert not condition.holds((found | {"aws:username": ("eve",)}).get)


@settings(deadline=None)
@given(value=st.text(max_size=30))
@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        ("NumericLessThan", "5"),
        ("DateGreaterThan", "2026-01-01"),
        ("IpAddress", "10.0.0.0/8"),
        ("BinaryEquals", "AAAA"),
        ("Bool", "true"),
        ("ArnLike", "arn:aws:s3:::*"),
    ],
)
def test_malformed_request_value_does_not_match(operator: str, operand: str, value: str) -> None:
    assert holds(operator, operand, value) in (True, False)
