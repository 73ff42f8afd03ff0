"""Credential access boundaries: the conditions that limit a token to prefixes of buckets.

A condition is an expression of the Common Expression Language (CEL) with bucket and prefix in string literals. A prefix
that could end its literal would rewrite the condition and widen the access (CVE-2026-42811), so each is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...core.errors import InvalidInput, TooLarge
from ..cloud.scoped import check_scope_prefix
from .options import is_bucket_name

MAX_RULES: Final = 10
"""Google's limit for the rules of a boundary."""

READ_ROLES: Final = ("inRole:roles/storage.legacyObjectReader", "inRole:roles/storage.objectViewer")
"""Read objects, and list them: only the second role permits to list."""

WRITE_ROLES: Final = ("inRole:roles/storage.legacyBucketWriter",)
"""Create, replace and delete objects."""

_CEL_ESCAPES: Final = {"\\": r"\\", "'": r"\'", '"': r"\"", "`": r"\`", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


@dataclass(frozen=True, slots=True)
class GcsScope:
    """What a token permits in one bucket."""

    bucket: str
    prefix: str
    """Key prefix with `/` at its end."""

    write: bool
    """Also create, replace and delete."""

    def __post_init__(self) -> None:
        if not is_bucket_name(self.bucket):
            raise InvalidInput(f"expected a bucket name. found={self.bucket!r}", argument="bucket")
        check_scope_prefix(self.prefix)


def access_boundary(scopes: Sequence[GcsScope]) -> dict[str, Any]:  # Any: a JSON document
    """The boundary for these scopes: for each bucket a rule for reading and, if needed, one for writing.

    Raises InvalidInput without scopes, because a boundary without rules would not limit the token; TooLarge beyond
    Google's limit.
    """
    if not scopes:
        raise InvalidInput("no scopes for a credential access boundary", argument="scopes")
    rules = []
    for bucket in dict.fromkeys(scope.bucket for scope in scopes):
        mine = [scope for scope in scopes if scope.bucket == bucket]
        read = _unique(scope.prefix for scope in mine)
        written = _unique(scope.prefix for scope in mine if scope.write)
        conditions = [object_condition(bucket, prefix) for prefix in read]
        conditions += [list_condition(prefix) for prefix in read]
        rules.append(_rule(bucket, READ_ROLES, conditions))
        if written:
            rules.append(_rule(bucket, WRITE_ROLES, [object_condition(bucket, prefix) for prefix in written]))
    if len(rules) > MAX_RULES:
        raise TooLarge(f"too many rules in a credential access boundary. rules={len(rules)} maximum={MAX_RULES}")
    return {"accessBoundary": {"accessBoundaryRules": rules}}


def object_condition(bucket: str, prefix: str) -> str:
    """The CEL condition that an object is under the prefix."""
    return f"resource.name.startsWith({cel_literal(f'projects/_/buckets/{bucket}/objects/{prefix}')})"


def list_condition(prefix: str) -> str:
    """The CEL condition that a listing is of the prefix, or of one below it."""
    attribute = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    return f"{attribute}.startsWith({cel_literal(prefix)})"


def cel_literal(text: str) -> str:
    """The CEL string literal of a text, in single quotes, of printable ASCII only."""
    return "'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in _CEL_ESCAPES:
        return _CEL_ESCAPES[character]
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _rule(bucket: str, roles: Sequence[str], conditions: Sequence[str]) -> dict[str, Any]:  # Any: a JSON document
    return {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": list(roles),
        "availabilityCondition": {"expression": " || ".join(conditions)},
    }


def _unique(prefixes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(prefixes))
