"""Table and view properties that the catalog interprets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import InvalidInput

__all__ = [
    "DROP_DIALECT_ALLOWED",
    "FORMAT_VERSION",
    "PREVIOUS_VERSIONS_MAX",
    "RESERVED",
    "VERSION_HISTORY_SIZE",
    "check_properties",
    "previous_versions_max",
    "version_history_size",
]

FORMAT_VERSION: Final = "format-version"
"""The format version of a table to create; not stored."""

RESERVED: Final = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names under which engines show metadata fields as properties. A stored property could contradict the field."""

PREVIOUS_VERSIONS_MAX: Final = "write.metadata.previous-versions-max"
VERSION_HISTORY_SIZE: Final = "version.history.num-entries"
DROP_DIALECT_ALLOWED: Final = "replace.drop-dialect.allowed"

_PREVIOUS_VERSIONS_DEFAULT: Final = 100
_HISTORY_DEFAULT: Final = 10


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidInput for reserved names, and for values of interpreted properties that are invalid."""
    for name in properties:
        if name in RESERVED:
            hint = ": send the update upgrade-format-version" if name == FORMAT_VERSION else ""
            raise InvalidInput(f"property is reserved and cannot be set{hint}. property={name}", argument=name)
    for name, least in ((PREVIOUS_VERSIONS_MAX, 0), (VERSION_HISTORY_SIZE, 1)):
        if name in properties:
            value = _whole(properties[name])
            if value is None or value < least:
                raise InvalidInput(
                    f"property must be a whole number, at least {least}. property={name} value={properties[name]}",
                    argument=name,
                )


def previous_versions_max(properties: Mapping[str, str]) -> int:
    """The number of previous metadata files in the metadata log, at least one."""
    return max(1, _whole_or(properties, PREVIOUS_VERSIONS_MAX, _PREVIOUS_VERSIONS_DEFAULT))


def version_history_size(properties: Mapping[str, str]) -> int:
    """The number of versions that a view keeps, at least one."""
    return max(1, _whole_or(properties, VERSION_HISTORY_SIZE, _HISTORY_DEFAULT))


def _whole_or(properties: Mapping[str, str], name: str, default: int) -> int:
    # Another catalog may have accepted an invalid number: the table must stay writable.
    value = _whole(properties.get(name, ""))
    return default if value is None else value


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
