"""Names of namespaces, tables and views, and their validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidName

SEPARATOR: Final = "\x1f"
"""Separates the levels of a namespace, in URLs and in rows."""

MAX_NAME_BYTES: Final = 255
MAX_NAMESPACE_BYTES: Final = 1024

_FORBIDDEN: Final = frozenset("/\\*?")
"""Slashes would be read as path levels, wildcards as patterns by policies that name a table."""

Levels = tuple[str, ...]
"""The levels of a namespace, outermost first."""


class Identifier(NamedTuple):
    """A table or view by name."""

    namespace: Levels
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


def check_namespace(levels: Sequence[str]) -> Levels:
    """The levels of a valid namespace name. Raises InvalidName."""
    if not levels:
        raise InvalidName("namespace is empty; expected at least one level")
    for level in levels:
        _check_part(level, "namespace level")
    if len(SEPARATOR.join(levels).encode()) > MAX_NAMESPACE_BYTES:
        raise InvalidName(f"namespace name is too long. maximum={MAX_NAMESPACE_BYTES} bytes")
    return tuple(levels)


def check_identifier(namespace: Sequence[str], name: str) -> Identifier:
    """The identifier of a valid name. Raises InvalidName."""
    return Identifier(check_namespace(namespace), _check_part(name, "name"))


def path_of(levels: Levels) -> str:
    """A namespace as stored in rows."""
    return SEPARATOR.join(levels)


def levels_of(path: str) -> Levels:
    """A namespace from its row."""
    return tuple(path.split(SEPARATOR)) if path else ()


def display(levels: Sequence[str]) -> str:
    """A namespace in dotted form, for messages."""
    return ".".join(levels)


def policy_value(levels: Sequence[str]) -> str:
    """A namespace as the value of the policy condition key `s3tables:namespace`; the mapping is one to one.

    Levels are joined by dots. A dot within a level is written `%2E` and a percent sign `%25`, so every dot separates
    two levels: `a.b` in a policy, or a pattern such as `*.b`, means the namespace `b` in `a`, never a namespace named
    `a.b`.
    """
    return ".".join(level.replace("%", "%25").replace(".", "%2E") for level in levels)


def _check_part(part: str, what: str) -> str:
    if not part or part in (".", ".."):
        raise InvalidName(f"invalid {what}: {part!r}")
    try:
        size = len(part.encode())
    except UnicodeEncodeError as error:
        raise InvalidName(f"{what} is not valid UTF-8") from error
    if size > MAX_NAME_BYTES:
        raise InvalidName(f"{what} is too long. maximum={MAX_NAME_BYTES} bytes")
    if part != part.strip() or any(character in _FORBIDDEN or ord(character) < 0x20 for character in part):
        raise InvalidName(
            f"{what} contains a slash, wildcard, control character, or leading or trailing blank: {part!r}"
        )
    return part
