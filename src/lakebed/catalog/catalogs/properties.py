"""Properties of catalogs and namespaces: limits and updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import ConflictingProperties, InvalidInput

from ..model import Properties

MAX_PROPERTIES: Final = 256
MAX_KEY_BYTES: Final = 256
MAX_VALUE_BYTES: Final = 4096
MAX_TOTAL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class PropertiesChange:
    """The outcome of an update, by property name."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidInput for properties over a limit."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidInput(f"too many properties. maximum={MAX_PROPERTIES}", argument="properties")
    total = 0
    for key, value in properties.items():
        try:
            key_size, value_size = len(key.encode()), len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput("property is not valid UTF-8", argument="properties") from error
        if not 1 <= key_size <= MAX_KEY_BYTES:
            raise InvalidInput(
                f"length of a property name is invalid. expected=1 to {MAX_KEY_BYTES} bytes", argument="properties"
            )
        if value_size > MAX_VALUE_BYTES:
            raise InvalidInput(f"property value is too long. maximum={MAX_VALUE_BYTES} bytes name={key}", argument=key)
        if "\0" in key or "\0" in value:
            raise InvalidInput(f"property contains a NUL. name={key!r}", argument="properties")
        total += key_size + value_size
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"properties are too large in total. maximum={MAX_TOTAL_BYTES} bytes")


def changed_properties(
    current: Mapping[str, str], updates: Mapping[str, str], removals: Sequence[str]
) -> tuple[Properties, PropertiesChange]:
    """The properties after an update, and its outcome. Raises InvalidInput, ConflictingProperties."""
    if len(set(removals)) != len(removals):
        raise InvalidInput("a property is repeated in the removals", argument="removals")
    both = sorted(set(removals) & updates.keys())
    if both:
        raise ConflictingProperties(f"properties are both set and removed: {', '.join(both)}", argument="removals")
    changed = {key: value for key, value in current.items() if key not in set(removals)} | dict(updates)
    return changed, PropertiesChange(
        updated=list(updates),
        removed=[key for key in removals if key in current],
        missing=[key for key in removals if key not in current],
    )
