"""Formats and parses timestamps by patterns such as `yyyy-MM-dd'T'HH:mm:ss.SSSX`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from ..errors import SelectCode, SelectError, failure
from .timestamps import Precision, Timestamp, parse_offset

_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_LENGTHS: Final = {
    "y": (1, 2, 4),
    "M": (1, 2, 3, 4, 5),
    "d": (1, 2),
    "a": (1,),
    "h": (1, 2),
    "H": (1, 2),
    "m": (1, 2),
    "s": (1, 2),
    "S": tuple(range(1, 10)),
    "n": (1,),
    "X": (1, 2, 3, 4, 5),
    "x": (1, 2, 3, 4, 5),
}
"""Allowed repetitions of each symbol."""

_FIELD: Final = {
    "y": "year",
    "M": "month",
    "d": "day",
    "a": "half of the day",
    "h": "hour",
    "H": "hour",
    "m": "minute",
    "s": "second",
    "S": "fraction",
    "n": "fraction",
    "X": "offset",
    "x": "offset",
}


@dataclass(frozen=True, slots=True)
class PatternSymbol:
    """A run of one letter, which formats a field; or, without a letter, literal text."""

    letter: str
    count: int
    text: str = ""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> tuple[PatternSymbol, ...]:
    """The symbols of a pattern. Raises SelectError with its S3 code."""
    symbols: list[PatternSymbol] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            text, position = _quoted(pattern, position)
            symbols.append(PatternSymbol("", 0, text))
        elif letter.isascii() and letter.isalpha():
            count = len(next("".join(run) for _, run in groupby(pattern[position:])))
            if letter not in _LENGTHS:
                raise failure(
                    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL,
                    f"unknown pattern symbol. symbol={letter} pattern={pattern}",
                )
            if count not in _LENGTHS[letter]:
                raise failure(
                    SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_TOKEN,
                    f"pattern symbol has an unsupported length. symbol={letter * count} pattern={pattern}",
                )
            symbols.append(PatternSymbol(letter, count))
            position += count
        else:
            symbols.append(PatternSymbol("", 0, letter))
            position += 1
    return tuple(symbols)


def _quoted(pattern: str, position: int) -> tuple[str, int]:
    """The quoted text at this position, and its end. Two quotes are one literal quote, inside quotes or alone."""
    end = position + 1
    text = ""
    while True:
        found = pattern.find("'", end)
        if found < 0:
            raise failure(
                SelectCode.UNTERMINATED_TIMESTAMP_FORMAT_PATTERN_TOKEN, f"unterminated quote. pattern={pattern}"
            )
        text += pattern[end:found]
        if pattern[found + 1 : found + 2] != "'" or found == position + 1:
            return text or "'", found + 1
        text += "'"
        end = found + 2


def write(moment: Timestamp, pattern: str) -> str:
    """Format a timestamp. Raises SelectError for an invalid pattern."""
    return "".join(_written(moment, symbol) for symbol in compile_pattern(pattern))


def _written(moment: Timestamp, symbol: PatternSymbol) -> str:
    count = symbol.count
    match symbol.letter:
        case "":
            return symbol.text
        case "y":
            return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)
        case "M":
            name = _MONTHS[moment.month - 1]
            return (str(moment.month), f"{moment.month:02}", name[:3], name, name[:1])[count - 1]
        case "d":
            return str(moment.day).zfill(count)
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "h":
            return str(moment.hour % 12 or 12).zfill(count)
        case "H":
            return str(moment.hour).zfill(count)
        case "m":
            return str(moment.minute).zfill(count)
        case "s":
            return str(moment.second).zfill(count)
        case "S":
            return moment.fraction.ljust(9, "0")[:count]
        case "n":
            return str(int(moment.fraction.ljust(9, "0")))
        case _:
            return _offset(moment.offset_minutes, symbol)


def _offset(minutes: int, symbol: PatternSymbol) -> str:
    if minutes == 0 and symbol.letter == "X":
        return "Z"
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if symbol.count == 1:
        return f"{sign}{hours:02}" + (f"{rest:02}" if rest else "")
    return f"{sign}{hours:02}{'' if symbol.count in (2, 4) else ':'}{rest:02}"


_READ_AS: Final = {
    ("y", 1): r"(\d{1,4})",
    ("y", 2): r"(\d\d)",
    ("y", 4): r"(\d{4})",
    ("M", 1): r"(\d{1,2})",
    ("M", 2): r"(\d\d)",
    ("M", 3): "(" + "|".join(name[:3] for name in _MONTHS) + ")",
    ("M", 4): "(" + "|".join(_MONTHS) + ")",
    ("a", 1): r"([AaPp][Mm])",
    ("n", 1): r"(\d{1,9})",
}


@lru_cache(maxsize=256)
def _compile_reader(pattern: str) -> tuple[re.Pattern[str], tuple[PatternSymbol, ...]]:
    symbols = compile_pattern(pattern)
    fields = [symbol for symbol in symbols if symbol.letter]
    letters = {symbol.letter for symbol in fields}
    if any(symbol.letter == "M" and symbol.count == 5 for symbol in fields):
        raise failure(
            SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN_SYMBOL_FOR_PARSING,
            f"a month cannot be parsed from its first letter. pattern={pattern}",
        )
    named = [_FIELD[symbol.letter] for symbol in fields]
    if len(set(named)) != len(named):
        raise failure(
            SelectCode.TIMESTAMP_FORMAT_PATTERN_DUPLICATE_FIELDS, f"pattern has a field twice. pattern={pattern}"
        )
    if ("h" in letters) != ("a" in letters):
        raise failure(
            SelectCode.TIMESTAMP_FORMAT_PATTERN_HOUR_CLOCK_AM_PM_MISMATCH,
            f"a 12-hour clock requires AM or PM, and the reverse. pattern={pattern}",
        )
    if "y" not in letters:
        raise failure(SelectCode.INVALID_TIMESTAMP_FORMAT_PATTERN, f"pattern has no year. pattern={pattern}")
    expression = "".join(re.escape(symbol.text) if not symbol.letter else _expression(symbol) for symbol in symbols)
    return re.compile(expression), tuple(fields)


def _expression(symbol: PatternSymbol) -> str:
    known = _READ_AS.get((symbol.letter, symbol.count))
    if known is not None:
        return known
    if symbol.letter in "Xx":
        digits = {1: r"\d\d(?:\d\d)?", 2: r"\d{4}", 4: r"\d{4}"}.get(symbol.count, r"\d\d:\d\d")
        return rf"([+-]{digits}{'|Z' if symbol.letter == 'X' else ''})"
    if symbol.letter == "S":
        return rf"(\d{{{symbol.count}}})"
    return r"(\d{1,2})" if symbol.count == 1 else r"(\d\d)"


def read(text: str, pattern: str) -> Timestamp:
    """Parse a timestamp by a pattern. Raises SelectError: for the pattern, or CastFailed for the text."""
    expression, fields = _compile_reader(pattern)
    match = expression.fullmatch(text)
    if match is None:
        raise failure(SelectCode.CAST_FAILED, f"value does not match the pattern. value={text[:64]} pattern={pattern}")
    found = {_FIELD[field.letter]: (field, value) for field, value in zip(fields, match.groups(), strict=True)}

    def number(name: str, default: int) -> int:
        return int(found[name][1]) if name in found else default

    hour = number("hour", 0)
    if "half of the day" in found:
        if not 1 <= hour <= 12:
            raise failure(SelectCode.CAST_FAILED, f"hour is out of range. value={text[:64]}")
        hour = hour % 12 + (12 if found["half of the day"][1].upper() == "PM" else 0)
    fraction = ""
    if "fraction" in found:
        field, digits = found["fraction"]
        fraction = digits if field.letter == "S" else digits.zfill(9)
    moment = Timestamp(
        _year(*found["year"]),
        _month(*found["month"]) if "month" in found else 1,
        number("day", 1),
        hour,
        number("minute", 0),
        number("second", 0),
        fraction,
        parse_offset(found["offset"][1]) if "offset" in found else 0,
        _precision(set(found)),
    )
    try:
        _ = moment.instant
    except (ValueError, OverflowError) as error:
        raise failure(SelectCode.CAST_FAILED, f"timestamp is out of range. value={text[:64]}") from error
    return moment


def _year(field: PatternSymbol, text: str) -> int:
    year = int(text)
    # Two digits mean 1969 to 2068, as in POSIX.
    return year if field.count != 2 else year + (2000 if year < 69 else 1900)


def _month(field: PatternSymbol, text: str) -> int:
    if field.count <= 2:
        return int(text)
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(text))


def _precision(fields: set[str]) -> Precision:
    if fields & {"second", "fraction"}:
        return Precision.SECOND
    if fields & {"hour", "minute"}:
        return Precision.MINUTE
    if "day" in fields:
        return Precision.DAY
    return Precision.MONTH if "month" in fields else Precision.YEAR


__all__ = ["SelectError", "compile_pattern", "read", "write"]
