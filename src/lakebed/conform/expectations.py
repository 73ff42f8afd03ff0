"""How a run ends early: the other side did not do what a client relies on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NotConforming(Exception):
    """What was expected of the server and what it did. Outside the error tree: a result of the run, no fault in it."""


def expect(holds: object, expected: str) -> None:
    """Go on if it holds. Raises NotConforming."""
    if not holds:
        raise NotConforming(expected)


def member(document: Mapping[str, Any], *path: str) -> Any:  # Any: JSON
    """What is at a path of names in a document. Raises NotConforming for one that is absent."""
    value: Any = document  # Any: JSON
    for depth, name in enumerate(path):
        if not isinstance(value, Mapping) or name not in value:
            raise NotConforming(f"the answer has no {'.'.join(path[: depth + 1])}")
        value = value[name]
    return value


def either(document: Mapping[str, Any], *names: str) -> Any:  # Any: JSON
    """What is under the first of several spellings that is there. Raises NotConforming."""
    for name in names:
        if name in document:
            return document[name]
    raise NotConforming(f"the answer has none of {', '.join(names)}")
