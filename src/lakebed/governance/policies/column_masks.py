"""Column masks, and their order of strictness. Pure.

A mask keeps the column's type. Where it does not apply to the type (a hash is a string, a date has no first letters),
the column is hidden entirely.

From strictest: `null` shows nothing; `constant` a value independent of the row; `hash` which rows have equal values;
`partial` the ends of a string; `year` the year of a date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .json_documents import Json, JsonPath, policy_fault
from .row_filters import Value, read_value

MAX_COLUMNS: Final = 1000
MAX_SHOWN: Final = 1000
MAX_SALT_CHARS: Final = 256


class MaskKind(StrEnum):
    """The kinds of masks, strictest first."""

    NULL = "null"
    CONSTANT = "constant"
    HASH = "hash"
    PARTIAL = "partial"
    YEAR = "year"


_STRICTNESS: Final = tuple(MaskKind)
_ARGUMENTS: Final[Mapping[MaskKind, tuple[str, ...]]] = {
    MaskKind.NULL: (),
    MaskKind.CONSTANT: ("value",),
    MaskKind.HASH: ("salt",),
    MaskKind.PARTIAL: ("first", "last"),
    MaskKind.YEAR: (),
}


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask of one column."""

    kind: MaskKind
    value: Value | None = None
    """Of a constant mask."""
    salt: str = ""
    """Of a hash mask: precedes the value, so that hashes of likely values cannot be looked up."""
    first: int = 0
    last: int = 0
    """Of a partial mask: the number of visible characters at each end. Shorter strings are hidden entirely."""


HIDDEN: Final = Mask(MaskKind.NULL)


def strictest(masks: Iterable[Mask]) -> Mask:
    """The combination of at least one mask on a column, independent of their order.

    The strictest kind applies. Partial masks show what all of them show; different masks of another kind hide all.
    """
    every = list(masks)
    kind = min((mask.kind for mask in every), key=_STRICTNESS.index)
    of_kind = [mask for mask in every if mask.kind is kind]
    if kind is MaskKind.PARTIAL:
        return Mask(kind, first=min(mask.first for mask in of_kind), last=min(mask.last for mask in of_kind))
    return of_kind[0] if all(mask == of_kind[0] for mask in of_kind) else HIDDEN


def read_masks(document: Json, at: JsonPath) -> dict[str, Mask]:
    """Parse masks by column name. Raises InvalidPolicy with the JSON path of the error."""
    if not isinstance(document, dict) or not document:
        raise policy_fault(at, "is required and must be an object with a mask for each column", document)
    if len(document) > MAX_COLUMNS:
        raise policy_fault(at, f"has at most {MAX_COLUMNS} columns", len(document))
    masks: dict[str, Mask] = {}
    for column, mask in document.items():
        if not column:
            raise policy_fault((*at, column), "a column name must not be empty")
        masks[column] = _mask(mask, (*at, column))
    return masks


def _mask(document: Json, at: JsonPath) -> Mask:
    """A mask: an object, or only its kind if it has no arguments."""
    if isinstance(document, str):
        document = {"mask": document}
    if not isinstance(document, dict):
        raise policy_fault(at, f"must be a mask: an object, or one of {', '.join(MaskKind)}", document)
    word = document.get("mask")
    if not isinstance(word, str) or word not in _STRICTNESS:
        raise policy_fault((*at, "mask"), f"must be one of {', '.join(MaskKind)}", word)
    kind = MaskKind(word)
    for key in document:
        if key != "mask" and key not in _ARGUMENTS[kind]:
            known = ", ".join(("mask", *_ARGUMENTS[kind]))
            raise policy_fault((*at, key), f"unknown key, expected one of {known}")
    if kind is MaskKind.CONSTANT:
        if "value" not in document:
            raise policy_fault((*at, "value"), "is required: the value to show")
        return Mask(kind, value=read_value(document["value"], (*at, "value")))
    if kind is MaskKind.HASH:
        return Mask(kind, salt=_salt(document.get("salt", ""), (*at, "salt")))
    if kind is MaskKind.PARTIAL:
        first, last = (_count(document.get(end, 0), (*at, end)) for end in ("first", "last"))
        if not first and not last:
            raise policy_fault(at, "shows nothing: set first or last to a number of characters, or use the mask null")
        return Mask(kind, first=first, last=last)
    return Mask(kind)


def _count(value: Json, at: JsonPath) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SHOWN:
        raise policy_fault(at, f"must be a whole number from 0 to {MAX_SHOWN}", value)
    return value


def _salt(value: Json, at: JsonPath) -> str:
    if not isinstance(value, str) or len(value) > MAX_SALT_CHARS:
        raise policy_fault(at, f"must be a string of at most {MAX_SALT_CHARS} characters")
    return value
