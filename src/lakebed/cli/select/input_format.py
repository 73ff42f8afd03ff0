"""The input format of an object, from flags or its name."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from lakebed.client.selects import Words
from lakebed.core.errors import InvalidInput

_CSV: Final = "csv"

FORMATS: Final[Mapping[str, Words]] = {
    _CSV: {"CSV": {}},
    "json": {"JSON": {"Type": "DOCUMENT"}},
    "jsonl": {"JSON": {"Type": "LINES"}},
    "parquet": {"Parquet": {}},
    "arrow": {"Arrow": {}},
    "avro": {"Avro": {}},
}
_ENDINGS: Final = {"tsv": _CSV, "txt": _CSV, "ndjson": "jsonl", "ipc": "arrow", "arrows": "arrow", "feather": "arrow"}
_COMPRESSIONS: Final = {
    "gz": "GZIP",
    "bz2": "BZIP2",
    "zst": "ZSTD",
    "lz4": "LZ4",
    "snappy": "SNAPPY",
    "none": "NONE",
}
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r"}

_CSV_FLAGS: Final = (
    ("delimiter", "FieldDelimiter", "TEXT", "field delimiter of CSV (default ,)"),
    ("record-delimiter", "RecordDelimiter", "TEXT", "record delimiter of CSV (default \\n)"),
    ("quote", "QuoteCharacter", "CHAR", 'quote character of CSV (default "); empty for none'),
    ("escape", "QuoteEscapeCharacter", "CHAR", 'escape character before a quote in quotes (default ")'),
    ("comments", "Comments", "CHAR", "first character of comment lines in CSV (default #)"),
)

SOURCE_FLAGS: Final = (
    "format",
    "compression",
    "header",
    *(flag.replace("-", "_") for flag, *_ in _CSV_FLAGS),
    "quoted_newlines",
)
"""Their names in the parsed arguments."""


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the input format."""
    group = parser.add_argument_group("input format", "By default from the suffix of the name.")
    group.add_argument("--format", choices=FORMATS, help="format of the object")
    group.add_argument("--compression", choices=_COMPRESSIONS, help="compression of the whole object")
    group.add_argument(
        "--header",
        choices=("none", "use", "ignore"),
        help="first record of CSV: none is data, use is column names, ignore skips it",
    )
    for flag, _, kind, text in _CSV_FLAGS:
        group.add_argument(f"--{flag}", metavar=kind, help=text)
    group.add_argument("--quoted-newlines", action="store_true", help="allow record delimiters in quoted fields")


def source_words(key: str, arguments: argparse.Namespace) -> Words:
    """The InputSerialization of an object. Raises InvalidInput for an unknown format."""
    name, _, ending = key.rpartition("/")[2].lower().rpartition(".")
    compression = arguments.compression
    if ending in _COMPRESSIONS and name:
        compression = compression or ending
        ending = name.rpartition(".")[2]
    chosen = arguments.format or _ENDINGS.get(ending, ending)
    if chosen not in FORMATS:
        raise InvalidInput(
            f"unknown format: give --format. key={key!r} expected={', '.join(FORMATS)}",
            argument="--format",
        )
    ((element, words),) = FORMATS[chosen].items()
    csv_words = _csv_words(arguments)
    if chosen == _CSV:
        tabs: Words = {"FieldDelimiter": "\t"} if ending == "tsv" else {}
        words = {**tabs, **csv_words}
    elif csv_words:
        raise InvalidInput(f"{', '.join(csv_words)}: only for CSV. format={chosen}", argument="--format")
    found: dict[str, str | bool | Words] = {element: words}
    if compression is not None:
        found["CompressionType"] = _COMPRESSIONS[compression]
    return found


def _csv_words(arguments: argparse.Namespace) -> Words:
    words: dict[str, str | bool | Words] = {}
    if arguments.header is not None:
        words["FileHeaderInfo"] = arguments.header.upper()
    for flag, element, _, _ in _CSV_FLAGS:
        text = getattr(arguments, flag.replace("-", "_"))
        if text is not None:
            words[element] = _unescaped(text)
    if arguments.quoted_newlines:
        words["AllowQuotedRecordDelimiter"] = True
    return words


def _unescaped(text: str) -> str:
    """Resolve escapes of tabs and line ends, which are hard to type in shells."""
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text
