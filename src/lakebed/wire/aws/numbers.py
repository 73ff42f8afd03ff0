"""Whole numbers in headers and parameters, parsed without exceptions."""

from __future__ import annotations

from typing import Final

BEYOND: Final = 10**18
"""Replaces every greater number: larger than any count here, and small enough for every store."""

_DIGITS: Final = 18


def whole_number(text: str) -> int | None:
    """The number that ASCII digits make; None for anything else.

    `str.isdigit` takes digits of every script, some of which `int` refuses, and `int` refuses thousands of digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) > _DIGITS:
        text = text.lstrip("0") or "0"
        if len(text) > _DIGITS:
            return BEYOND
    return int(text)


def signed_number(text: str) -> int | None:
    """The same with a minus sign before it, or none."""
    number = whole_number(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number
