"""Column masks as policies write them, and which of two is the stricter. Pure.

A mask keeps the column's type. Where it cannot, since a hash is a text and a date has no first letters, the column is
hidden whole: a mask that does not fit shows nothing, and never everything.

From the strictest on: `null` shows nothing; `constant` a value that says nothing of the row; `hash` which rows have the
same value; `partial` a text's ends; `year` a date's year.
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
    """What becomes of a value, the strictest first."""

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
    """Of a constant."""
    salt: str = ""
    """Of a hash: goes before the value, so that nobody can look hashes of likely values up."""
    first: int = 0
    last: int = 0
    """Of a partial mask: how many characters are shown of each end. Shorter texts are hidden whole."""


HIDDEN: Final = Mask(MaskKind.NULL)


def strictest(masks: Iterable[Mask]) -> Mask:
    """The mask of a column that has all of these, in whichever order; there is one at least.

    The strictest kind. Of one kind, partial masks show what all show; others that differ agree on nothing.
    """
    every = list(masks)
    kind = min((mask.kind for mask in every), key=_STRICTNESS.index)
    of_kind = [mask for mask in every if mask.kind is kind]
    if kind is MaskKind.PARTIAL:
        return Mask(kind, first=min(mask.first for mask in of_kind), last=min(mask.last for mask in of_kind))
    return of_kind[0] if all(mask == of_kind[0] for mask in of_kind) else HIDDEN


def read_masks(document: Json, at: JsonPath) -> dict[str, Mask]:
    """Masks by the names of their columns. Raises InvalidPolicy with the JSON path of what is wrong."""
    if not isinstance(document, dict) or not document:
        raise policy_fault(at, "is required, and an object with a mask for each column", document)
    if len(document) > MAX_COLUMNS:
        raise policy_fault(at, f"has at most {MAX_COLUMNS} columns", len(document))
    masks: dict[str, Mask] = {}
    for column, mask in document.items():
        if not column:
            raise policy_fault((*at, column), "a column has a name")
        masks[column] = _mask(mask, (*at, column))
    return masks


def _mask(document: Json, at: JsonPath) -> Mask:
    """A mask: an object, or the bare word for one that takes no argument."""
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
            raise policy_fault((*at, key), f"no such key here; a mask of this kind has {known}")
    if kind is MaskKind.CONSTANT:
        if "value" not in document:
            raise policy_fault((*at, "value"), "is required: what is shown in place of each value")
        return Mask(kind, value=read_value(document["value"], (*at, "value")))
    if kind is MaskKind.HASH:
        return Mask(kind, salt=_salt(document.get("salt", ""), (*at, "salt")))
    if kind is MaskKind.PARTIAL:
        first, last = (_count(document.get(end, 0), (*at, end)) for end in ("first", "last"))
        if not first and not last:
            raise policy_fault(at, "shows nothing: say how many characters, first or last; or let the mask be null")
        return Mask(kind, first=first, last=last)
    return Mask(kind)


def _count(value: Json, at: JsonPath) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SHOWN:
        raise policy_fault(at, f"must be a whole number from 0 to {MAX_SHOWN}", value)
    return value


def _salt(value: Json, at: JsonPath) -> str:
    if not isinstance(value, str) or len(value) > MAX_SALT_CHARS:
        raise policy_fault(at, f"must be a text of at most {MAX_SALT_CHARS} characters")
    return value
