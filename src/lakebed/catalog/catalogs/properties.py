"""Properties of warehouses and namespaces: limits, and what a change of them does."""

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
    """What became of the names in a change."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidInput when they are over a limit."""
    if len(properties) > MAX_PROPERTIES:
        raise InvalidInput(f"too many properties. limit={MAX_PROPERTIES}", argument="properties")
    total = 0
    for key, value in properties.items():
        try:
            key_size, value_size = len(key.encode()), len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidInput("a property is text in UTF-8", argument="properties") from error
        if not 1 <= key_size <= MAX_KEY_BYTES:
            raise InvalidInput(f"a property's name has 1 to {MAX_KEY_BYTES} bytes", argument="properties")
        if value_size > MAX_VALUE_BYTES:
            raise InvalidInput(f"a property's value has at most {MAX_VALUE_BYTES} bytes. name={key}", argument=key)
        if "\0" in key or "\0" in value:
            raise InvalidInput(f"a property holds no NUL. name={key!r}", argument="properties")
        total += key_size + value_size
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"the properties are over their limit together. limit={MAX_TOTAL_BYTES}")


def changed_properties(
    current: Mapping[str, str], updates: Mapping[str, str], removals: Sequence[str]
) -> tuple[Properties, PropertiesChange]:
    """The properties after a change, and what it did. Raises InvalidInput, ConflictingProperties."""
    if len(set(removals)) != len(removals):
        raise InvalidInput("a property is named twice among the removals", argument="removals")
    both = sorted(set(removals) & updates.keys())
    if both:
        raise ConflictingProperties(f"properties are both set and removed: {', '.join(both)}", argument="removals")
    changed = {key: value for key, value in current.items() if key not in set(removals)} | dict(updates)
    return changed, PropertiesChange(
        updated=list(updates),
        removed=[key for key in removals if key in current],
        missing=[key for key in removals if key not in current],
    )
