"""Parses and checks the policy document of a POST upload. Pure.

The policy's signer sets conditions and an expiration for a form that another party submits. So conditions must cover
every field that affects the object: a form with fields beyond those in the policy is rejected, as is a form without a
field of the policy. The bucket counts as a field even if the form does not contain it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.wire.aws.errors import AwsFault

__all__ = ["ANY_SIZE", "ConditionOperator", "FieldCondition", "PostPolicy", "SizeRange", "parse_post_policy"]

_UNCHECKED: Final = frozenset({"file", "policy", "x-amz-signature"})
_IGNORED_PREFIX: Final = "x-ignore-"
_SIZE: Final = "content-length-range"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_S3_ESCAPES: Final = {"\\$": "$", "\\v": "\\u000b"}
"""Escapes that S3 allows in policies but JSON does not."""

_WHITESPACE: Final = re.compile(r"[ \t\r\n]+")


class ConditionOperator(StrEnum):
    """The operator of a condition."""

    EQUAL = "eq"
    PREFIX = "starts-with"


_MATCHES: Final = frozenset(match.value for match in ConditionOperator)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition on one field."""

    match: ConditionOperator
    field: str
    """In lower case: field names are case-insensitive."""

    value: str

    name: str | None = None
    """The name in the policy if it lacks the dollar sign of a field: then no form satisfies the condition."""

    is_simple: bool = False
    """Whether the policy has it as an object of one property."""

    def is_met_by(self, value: str | None) -> bool:
        """Whether a form with this value satisfies the condition. A missing field satisfies none, not even ''."""
        if value is None or self.name is not None:
            return False
        if self.match is ConditionOperator.EQUAL:
            return value == self.value
        # Each of several comma-separated content types must have the prefix.
        values = value.split(",") if self.field == "content-type" else [value]
        return all(one.strip().startswith(self.value) for one in values)

    @property
    def text(self) -> str:
        """The condition in S3's error messages: a list, also for simple conditions."""
        pieces = [self.match.value, f"${self.field}" if self.name is None else self.name, self.value]
        encoded = [msgspec.json.encode(piece).decode() for piece in pieces]
        return f"[{(', ' if self.is_simple else ',').join(encoded)}]"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The allowed size of the file."""

    minimum: int
    maximum: int | None

    def check_so_far(self, size: int) -> None:
        """Raise AwsFault if the bytes received so far exceed the maximum."""
        if self.maximum is not None and size > self.maximum:
            raise AwsFault(
                400,
                "EntityTooLarge",
                "Your proposed upload exceeds the maximum allowed object size.",
                ProposedSize=str(size),
                MaxSizeAllowed=str(self.maximum),
            )

    def check_whole(self, size: int) -> None:
        """Raise AwsFault if the size of the whole file is outside the range."""
        self.check_so_far(size)
        if size < self.minimum:
            raise AwsFault(
                400,
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                ProposedSize=str(size),
                MinSizeAllowed=str(self.minimum),
            )

    def within(self, other: SizeRange) -> SizeRange:
        """The intersection of both ranges."""
        ends = [end for end in (self.maximum, other.maximum) if end is not None]
        return SizeRange(max(self.minimum, other.minimum), min(ends) if ends else None)


ANY_SIZE: Final = SizeRange(0, None)


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """The conditions of a policy, and its expiration."""

    expires_ms: int
    conditions: tuple[FieldCondition, ...]
    size: SizeRange = ANY_SIZE

    def check(self, fields: Mapping[str, str], now_ms: int) -> None:
        """Raise AwsFault unless a form with these fields, by lower-case name, satisfies the policy now."""
        if now_ms > self.expires_ms:
            raise _policy_violation("Policy expired.")
        for condition in self.conditions:
            if not condition.is_met_by(fields.get(condition.field)):
                raise _policy_violation(f"Policy Condition failed: {condition.text}")
        known = {condition.field for condition in self.conditions} | _UNCHECKED
        extra = [name for name in fields if name not in known and not name.startswith(_IGNORED_PREFIX)]
        if extra:
            raise _policy_violation(f"Extra input fields: {', '.join(extra)}")


def parse_post_policy(encoded: str) -> PostPolicy:
    """Parse the form's `policy` field: JSON in base64. Raises AwsFault."""
    try:
        text = base64.b64decode(_WHITESPACE.sub("", encoded), validate=True).decode("utf-8")
    except ValueError as error:
        raise _invalid("invalid Base64 encoding.") from error
    if not text.strip():
        raise _invalid("Expecting '{' but found End-of-Input")
    try:
        document = msgspec.json.decode(_ESCAPE.sub(lambda found: _S3_ESCAPES.get(found[0], found[0]), text))
    except (ValueError, RecursionError) as error:
        raise _not_json() from error
    if not isinstance(document, dict):
        raise _not_json()
    unknown = document.keys() - {"expiration", "conditions"}
    if unknown:
        raise _invalid(f'Unexpected: "{min(unknown)[:100]}"')
    expires_ms = _read_expiration(document.get("expiration"))
    if "conditions" not in document:
        raise _invalid("Policy missing conditions.")
    listed = document["conditions"]
    if not isinstance(listed, list):
        raise _invalid("Invalid 'conditions' value: must be a List.")
    conditions: list[FieldCondition] = []
    size = ANY_SIZE
    for item in listed:
        parsed = _read_condition(item)
        if isinstance(parsed, SizeRange):
            size = size.within(parsed)
        else:
            conditions.append(parsed)
    return PostPolicy(expires_ms, tuple(conditions), size)


def _read_expiration(value: object) -> int:
    if value is None:
        raise _invalid("Policy missing expiration.")
    if not isinstance(value, str):
        raise _not_json()
    try:
        if not _TIME.fullmatch(value):
            raise ValueError(value)
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise _invalid(f"Invalid 'expiration' value: '{value[:100]}'") from error


def _read_condition(item: object) -> FieldCondition | SizeRange:
    if isinstance(item, dict):
        if len(item) != 1:
            raise _invalid("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.")
        ((name, value),) = item.items()
        if not isinstance(value, str):
            raise _invalid("Invalid Simple-Condition: value must be a string.")
        return FieldCondition(ConditionOperator.EQUAL, name.lower(), value, is_simple=True)
    if not isinstance(item, list):
        raise _invalid("Invalid condition test: must be a List or Object.")
    if not item:
        raise _invalid("Invalid Condition: missing operation identifier.")
    if not isinstance(item[0], str):
        raise _not_json()
    kind = item[0].lower()
    if kind != _SIZE and kind not in _MATCHES:
        raise _invalid(f"Invalid Condition: unknown operation '{kind[:100]}'.")
    if len(item) != 3:
        raise _invalid(f"Invalid {kind}: wrong number of arguments.")
    if kind == _SIZE:
        minimum, maximum = _read_size(item[1]), _read_size(item[2])
        if minimum > maximum:
            raise _invalid(f"Invalid {_SIZE}: the minimum exceeds the maximum.")
        return SizeRange(minimum, maximum)
    match, name, value = ConditionOperator(kind), item[1], item[2]
    if not isinstance(name, str) or not isinstance(value, str):
        raise _not_json()
    if not name.startswith("$"):
        return FieldCondition(match, name.lower(), value, name)
    return FieldCondition(match, name[1:].lower(), value)


def _read_size(value: object) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _not_json()


def _policy_violation(reason: str) -> AwsFault:
    return AwsFault(403, "AccessDenied", f"Invalid according to Policy: {reason}")


def _invalid(reason: str) -> AwsFault:
    return AwsFault(400, "InvalidPolicyDocument", f"Invalid Policy: {reason}")


def _not_json() -> AwsFault:
    """S3's error for malformed JSON, and also for values of a wrong type."""
    return _invalid("Invalid JSON.")
