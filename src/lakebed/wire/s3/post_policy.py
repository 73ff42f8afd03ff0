"""The policy document of a form upload: what its author signed, and whether a form keeps to it. Pure.

The author signs conditions and an end, and hands the document to whoever fills in the form. So every field that could
change what is stored must be named by a condition: a form with a field more than the policy knows is refused, and so is
one that lacks a field the policy asks for. The bucket counts as a field, whether or not the form repeats it.
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
_OWN_ESCAPES: Final = {"\\$": "$", "\\v": "\\u000b"}
"""What S3's policies may escape and JSON may not."""

_WHITESPACE: Final = re.compile(r"[ \t\r\n]+")


class ConditionOperator(StrEnum):
    """How a condition compares."""

    EQUAL = "eq"
    PREFIX = "starts-with"


_MATCHES: Final = frozenset(match.value for match in ConditionOperator)


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """What one field must be."""

    match: ConditionOperator
    field: str
    """In lower case: names of fields have none."""

    value: str

    name: str | None = None
    """As the policy wrote it, where that was without the dollar sign that names a field: no form keeps to it then."""

    is_simple: bool = False
    """Written as an object of one property."""

    def is_met_by(self, value: str | None) -> bool:
        """Whether a form with this value keeps to it. A field that is absent keeps to nothing, not even to ''."""
        if value is None or self.name is not None:
            return False
        if self.match is ConditionOperator.EQUAL:
            return value == self.value
        # Of the types of several files, separated by commas, each must begin so.
        values = value.split(",") if self.field == "content-type" else [value]
        return all(one.strip().startswith(self.value) for one in values)

    @property
    def text(self) -> str:
        """As S3 shows it: simple conditions written out, others as policies have them."""
        pieces = [self.match.value, f"${self.field}" if self.name is None else self.name, self.value]
        encoded = [msgspec.json.encode(piece).decode() for piece in pieces]
        return f"[{(', ' if self.is_simple else ',').join(encoded)}]"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """How many bytes the file may have."""

    least: int
    most: int | None

    def check_so_far(self, size: int) -> None:
        """Raise AwsFault when this is already too much."""
        if self.most is not None and size > self.most:
            raise AwsFault(
                400,
                "EntityTooLarge",
                "Your proposed upload exceeds the maximum allowed object size.",
                ProposedSize=str(size),
                MaxSizeAllowed=str(self.most),
            )

    def check_whole(self, size: int) -> None:
        """Raise AwsFault when a whole file of this size is not within the range."""
        self.check_so_far(size)
        if size < self.least:
            raise AwsFault(
                400,
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                ProposedSize=str(size),
                MinSizeAllowed=str(self.least),
            )

    def within(self, other: SizeRange) -> SizeRange:
        """What both allow."""
        ends = [end for end in (self.most, other.most) if end is not None]
        return SizeRange(max(self.least, other.least), min(ends) if ends else None)


ANY_SIZE: Final = SizeRange(0, None)


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """What its author allows, and until when."""

    expires_ms: int
    conditions: tuple[FieldCondition, ...]
    size: SizeRange = ANY_SIZE

    def check(self, fields: Mapping[str, str], now_ms: int) -> None:
        """Raise AwsFault unless a form with these fields, by names in lower case, keeps to the policy now."""
        if now_ms > self.expires_ms:
            raise _refused("Policy expired.")
        for condition in self.conditions:
            if not condition.is_met_by(fields.get(condition.field)):
                raise _refused(f"Policy Condition failed: {condition.text}")
        known = {condition.field for condition in self.conditions} | _UNCHECKED
        extra = [name for name in fields if name not in known and not name.startswith(_IGNORED_PREFIX)]
        if extra:
            raise _refused(f"Extra input fields: {', '.join(extra)}")


def parse_post_policy(encoded: str) -> PostPolicy:
    """Read the form's `policy` field: JSON in base64. Raises AwsFault."""
    try:
        text = base64.b64decode(_WHITESPACE.sub("", encoded), validate=True).decode("utf-8")
    except ValueError as error:
        raise _invalid("invalid Base64 encoding.") from error
    if not text.strip():
        raise _invalid("Expecting '{' but found End-of-Input")
    try:
        document = msgspec.json.decode(_ESCAPE.sub(lambda found: _OWN_ESCAPES.get(found[0], found[0]), text))
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
        least, most = _read_size(item[1]), _read_size(item[2])
        if least > most:
            raise _invalid(f"Invalid {_SIZE}: it ends before it begins.")
        return SizeRange(least, most)
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


def _refused(reason: str) -> AwsFault:
    return AwsFault(403, "AccessDenied", f"Invalid according to Policy: {reason}")


def _invalid(reason: str) -> AwsFault:
    return AwsFault(400, "InvalidPolicyDocument", f"Invalid Policy: {reason}")


def _not_json() -> AwsFault:
    """What S3 says of every value that is not of the type it should be, too."""
    return _invalid("Invalid JSON.")
