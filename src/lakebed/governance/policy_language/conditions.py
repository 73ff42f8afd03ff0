"""Conditions of the policy language: operators over the values of a request.

If the request does not have the key, `…IfExists` and `ForAllValues:` hold and `ForAnyValue:` does not; a plain negated
operator holds, a plain positive one does not. Several operands are alternatives. A negated operator is the opposite of
the positive one: with several values, none may match.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from lakebed.core.errors import InvalidPolicy

from .wildcards import ConditionValues, PolicyPattern, fold_key

Test: TypeAlias = Callable[[str, ConditionValues], bool]
"""Whether a value of the request matches an operand."""


class Quantifier(Enum):
    """How a condition evaluates a key with several values."""

    ALL = "ForAllValues"
    ANY = "ForAnyValue"


@dataclass(frozen=True, slots=True)
class Condition:
    """An operator over a key."""

    key: str
    """In lower case, as in `ConditionValues`."""

    operator: str
    """The positive or negated operator, without prefix and suffix."""

    operands: tuple[str, ...]
    tests: tuple[Test, ...]
    negated: bool = False
    quantifier: Quantifier | None = None
    if_exists: bool = False
    patterns: tuple[PolicyPattern, ...] = ()
    """The operands that can contain variables."""

    def holds(self, values: ConditionValues) -> bool:
        """Whether the request satisfies the condition."""
        found = values(self.key)
        if self.operator == "Null":
            return any(wanted == ("false" if found else "true") for wanted in self.operands)
        if not found:
            if self.if_exists or self.quantifier is Quantifier.ALL:
                return True
            return self.negated and self.quantifier is None
        matched = (self._matches(value, values) is not self.negated for value in found)
        if self.quantifier is Quantifier.ANY or (self.quantifier is None and not self.negated):
            return any(matched)
        return all(matched)

    def _matches(self, value: str, values: ConditionValues) -> bool:
        return any(test(value, values) for test in self.tests)


def parse_condition(operator: str, key: str, operands: tuple[str, ...], *, variables: bool) -> Condition:
    """Compile a condition. Raises InvalidPolicy for unknown operators and invalid operands."""
    name, quantifier = operator, None
    prefix, colon, rest = operator.partition(":")
    if colon:
        try:
            name, quantifier = rest, Quantifier(prefix)
        except ValueError:
            raise InvalidPolicy(f"unknown condition operator. operator={operator}") from None
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    negated = name in _NEGATED
    compile_tests = _COMPILERS.get(_NEGATED.get(name, name))
    if compile_tests is None or (name == "Null" and (if_exists or quantifier)):
        raise InvalidPolicy(f"unknown condition operator. operator={operator}")
    if ":" not in key.strip(":"):
        raise InvalidPolicy(f"condition key must read service:name. key={key}")
    tests: list[Test] = []
    patterns: list[PolicyPattern] = []
    for operand in operands:
        test = compile_tests(operand, variables)
        if isinstance(test, _PatternTest):
            patterns.append(test.pattern)
        tests.append(test)
    if name == "Null":
        operands = tuple(operand.lower() for operand in operands)
    return Condition(fold_key(key), name, operands, tuple(tests), negated, quantifier, if_exists, tuple(patterns))


@dataclass(frozen=True, slots=True)
class _PatternTest:
    pattern: PolicyPattern

    def __call__(self, value: str, values: ConditionValues) -> bool:
        return self.pattern.matches(value, values)


def _string(operand: str, variables: bool) -> Test:
    return _PatternTest(PolicyPattern(operand, wildcards=False, variables=variables))


def _string_ignore_case(operand: str, variables: bool) -> Test:
    return _PatternTest(PolicyPattern(operand, wildcards=False, variables=variables, ignore_case=True))


def _string_like(operand: str, variables: bool) -> Test:
    return _PatternTest(PolicyPattern(operand, variables=variables))


def _arn(operand: str, variables: bool) -> Test:
    pattern = PolicyPattern(operand, variables=variables, arn=operand != "*")
    if operand != "*" and not pattern.variables and operand.count(":") < 5:
        raise InvalidPolicy(f"condition operand is not an ARN. operand={operand}")
    return _PatternTest(pattern)


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _instant(text: str) -> Decimal | None:
    """Seconds since the epoch, from ISO 8601 (UTC by default) or from a number."""
    if (number := _number(text)) is not None:
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Decimal(repr(moment.timestamp()))


def _ordered(
    kind: str, read: Callable[[str], Decimal | None], compare: Callable[[Decimal, Decimal], bool]
) -> Callable[[str, bool], Test]:
    def compile_test(operand: str, variables: bool) -> Test:
        limit = read(operand)
        if limit is None:
            raise InvalidPolicy(f"condition operand is not a {kind}. operand={operand}")

        def test(value: str, values: ConditionValues) -> bool:
            given = read(value)
            return given is not None and compare(given, limit)

        return test

    return compile_test


def _bool(operand: str, variables: bool) -> Test:
    wanted = operand.lower()
    if wanted not in ("true", "false"):
        raise InvalidPolicy(f"condition operand must be true or false. operand={operand}")
    return lambda value, values: value.lower() == wanted


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _binary(operand: str, variables: bool) -> Test:
    wanted = _decoded(operand)
    if wanted is None:
        raise InvalidPolicy(f"condition operand is not base64. operand={operand}")
    return lambda value, values: _decoded(value) == wanted


Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=1024)
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 clients as ::ffff:a.b.c.d; policies use the IPv4 address.
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def parse_network(operand: str) -> Network:
    """Parse an address or a CIDR block. Raises InvalidPolicy."""
    try:
        return ipaddress.ip_network(operand, strict=False)
    except ValueError:
        raise InvalidPolicy(f"condition operand is not an address or CIDR block. operand={operand}") from None


def _ip_address(operand: str, variables: bool) -> Test:
    network = parse_network(operand)

    def test(value: str, values: ConditionValues) -> bool:
        address = _address(value)
        return address is not None and address in network

    return test


_ORDERS: Final[Mapping[str, Callable[[Decimal, Decimal], bool]]] = {
    "Equals": Decimal.__eq__,
    "LessThan": Decimal.__lt__,
    "LessThanEquals": Decimal.__le__,
    "GreaterThan": Decimal.__gt__,
    "GreaterThanEquals": Decimal.__ge__,
}

_COMPILERS: Final[Mapping[str, Callable[[str, bool], Test]]] = {
    "StringEquals": _string,
    "StringEqualsIgnoreCase": _string_ignore_case,
    "StringLike": _string_like,
    "ArnEquals": _arn,
    "ArnLike": _arn,
    "Bool": _bool,
    "BinaryEquals": _binary,
    "IpAddress": _ip_address,
    "Null": _bool,
    **{f"Numeric{name}": _ordered("number", _number, order) for name, order in _ORDERS.items()},
    **{f"Date{name}": _ordered("date", _instant, order) for name, order in _ORDERS.items()},
}

_NEGATED: Final[Mapping[str, str]] = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
    "NotIpAddress": "IpAddress",
}
"""Negated operators and their positive counterparts."""
