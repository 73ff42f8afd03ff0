"""How an object is to be read: as flags say, and where they say nothing by its name."""

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
    ("delimiter", "FieldDelimiter", "TEXT", "between fields of CSV (default ,)"),
    ("record-delimiter", "RecordDelimiter", "TEXT", "between records of CSV (default \\n)"),
    ("quote", "QuoteCharacter", "CHAR", 'around fields of CSV (default "); empty for none'),
    ("escape", "QuoteEscapeCharacter", "CHAR", 'before a quote within quotes (default ")'),
    ("comments", "Comments", "CHAR", "what lines of CSV begin with that are no records (default #)"),
)

SOURCE_FLAGS: Final = (
    "format",
    "compression",
    "header",
    *(flag.replace("-", "_") for flag, *_ in _CSV_FLAGS),
    "quoted_newlines",
)
"""As the parser names them."""


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say how to read."""
    group = parser.add_argument_group("reading", "Format and compression are known by the ends of names.")
    group.add_argument("--format", choices=FORMATS, help="what the object is")
    group.add_argument("--compression", choices=_COMPRESSIONS, help="how the whole object is compressed")
    group.add_argument(
        "--header", choices=("none", "use", "ignore"), help="what the first record of CSV is: data, names, neither"
    )
    for flag, _, kind, text in _CSV_FLAGS:
        group.add_argument(f"--{flag}", metavar=kind, help=text)
    group.add_argument("--quoted-newlines", action="store_true", help="let fields in quotes go over several lines")


def source_words(key: str, arguments: argparse.Namespace) -> Words:
    """How to read the object. Raises InvalidInput where neither its name nor a flag says what it is."""
    name, _, ending = key.rpartition("/")[2].lower().rpartition(".")
    compression = arguments.compression
    if ending in _COMPRESSIONS and name:
        compression = compression or ending
        ending = name.rpartition(".")[2]
    chosen = arguments.format or _ENDINGS.get(ending, ending)
    if chosen not in FORMATS:
        raise InvalidInput(
            f"what is it? its name does not say: give --format. key={key!r} known={', '.join(FORMATS)}",
            argument="--format",
        )
    ((element, words),) = FORMATS[chosen].items()
    said = _csv_words(arguments)
    if chosen == _CSV:
        tabs: Words = {"FieldDelimiter": "\t"} if ending == "tsv" else {}
        words = {**tabs, **said}
    elif said:
        raise InvalidInput(f"{', '.join(said)}: only CSV has these. format={chosen}", argument="--format")
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
    """Tabs and line ends as people write them; shells make them hard to type."""
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text
