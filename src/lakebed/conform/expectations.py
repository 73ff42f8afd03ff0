"""Checks of responses; a failed check ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NotConforming(Exception):
    """The server did not behave as expected. Not a LakebedError: it is a result of the run."""


def expect(holds: object, expected: str) -> None:
    """Raise NotConforming unless `holds`."""
    if not holds:
        raise NotConforming(expected)


def member(document: Mapping[str, Any], *path: str) -> Any:  # Any: JSON
    """The value at a path in a JSON document. Raises NotConforming if absent."""
    value: Any = document  # Any: JSON
    for depth, name in enumerate(path):
        if not isinstance(value, Mapping) or name not in value:
            raise NotConforming(f"response lacks {'.'.join(path[: depth + 1])}")
        value = value[name]
    return value


def either(document: Mapping[str, Any], *names: str) -> Any:  # Any: JSON
    """The value of the first name that is present. Raises NotConforming."""
    for name in names:
        if name in document:
            return document[name]
    raise NotConforming(f"response lacks all of {', '.join(names)}")
