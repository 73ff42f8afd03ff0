"""Parses integers in headers and parameters without exceptions."""

from __future__ import annotations

from typing import Final

MAX_NUMBER: Final = 10**18
"""Larger numbers are reduced to this: it exceeds every count, and fits into the columns of every metadata store."""

_DIGITS: Final = 18


def whole_number(text: str) -> int | None:
    """Parse ASCII digits; None for any other text.

    `str.isdigit` accepts digits of all scripts, some of which `int` rejects; `int` rejects thousands of digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) > _DIGITS:
        text = text.lstrip("0") or "0"
        if len(text) > _DIGITS:
            return MAX_NUMBER
    return int(text)


def signed_number(text: str) -> int | None:
    """Parse ASCII digits with an optional minus sign; None for any other text."""
    number = whole_number(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number
