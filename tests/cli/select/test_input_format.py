"""The input format from object names and flags."""

from __future__ import annotations

import argparse

import pytest

from lakebed.cli.select.command import read_address, read_range
from lakebed.cli.select.input_format import add_source_flags, source_words
from lakebed.client.selects import Words
from lakebed.core.errors import InvalidInput


def words(key: str, *flags: str) -> Words:
    parser = argparse.ArgumentParser()
    add_source_flags(parser)
    return source_words(key, parser.parse_args(flags))


@pytest.mark.parametrize(
    ("key", "flags", "expected"),
    [
        ("a/b.csv", (), {"CSV": {}}),
        ("B.CSV", (), {"CSV": {}}),
        ("b.tsv", (), {"CSV": {"FieldDelimiter": "\t"}}),
        ("b.tsv", ("--delimiter", "|"), {"CSV": {"FieldDelimiter": "|"}}),
        ("b.json", (), {"JSON": {"Type": "DOCUMENT"}}),
        ("b.jsonl", (), {"JSON": {"Type": "LINES"}}),
        ("b.ndjson.zst", (), {"JSON": {"Type": "LINES"}, "CompressionType": "ZSTD"}),
        ("b.parquet", (), {"Parquet": {}}),
        ("b.arrow", (), {"Arrow": {}}),
        ("b.avro", (), {"Avro": {}}),
        ("b.csv.gz", (), {"CSV": {}, "CompressionType": "GZIP"}),
        ("b.csv.gz", ("--compression", "none"), {"CSV": {}, "CompressionType": "NONE"}),
        ("b.csv.bz2", ("--header", "use"), {"CSV": {"FileHeaderInfo": "USE"}, "CompressionType": "BZIP2"}),
        ("noname", ("--format", "csv"), {"CSV": {}}),
        ("b.csv", ("--format", "jsonl"), {"JSON": {"Type": "LINES"}}),
        (
            "b.csv",
            ("--record-delimiter", r"\r\n", "--quote", "", "--escape", "\\", "--comments", ";", "--quoted-newlines"),
            {
                "CSV": {
                    "RecordDelimiter": "\r\n",
                    "QuoteCharacter": "",
                    "QuoteEscapeCharacter": "\\",
                    "Comments": ";",
                    "AllowQuotedRecordDelimiter": True,
                }
            },
        ),
    ],
)
def test_input_format_follows_from_name_and_flags(key: str, flags: tuple[str, ...], expected: Words) -> None:
    assert words(key, *flags) == expected


@pytest.mark.parametrize(
    ("key", "flags"),
    [("noname", ()), ("b.gz", ()), (".gz", ()), ("b.xlsx", ()), ("b.parquet", ("--header", "use"))],
)
def test_unknown_or_contradicting_formats_are_rejected(key: str, flags: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        words(key, *flags)


def test_object_addresses_are_parsed() -> None:
    assert read_address("s3://b/a/k.csv") == ("b", "a/k.csv")
    assert read_address("s3a://b/a/") == ("b", "a/")
    assert read_address("s3://b") == ("b", "")
    for wrong in ("http://b/k", "s3:///k", "s3://"):
        with pytest.raises(InvalidInput):
            read_address(wrong)


def test_ranges_are_parsed() -> None:
    assert read_range(None) is None
    assert read_range("0-10") == (0, 10)
    assert read_range("5-") == (5, None)
    assert read_range("-5") == (None, 5)
    for wrong in ("", "-", "5", "a-b", "1-b", "²-3"):
        with pytest.raises(InvalidInput):
            read_range(wrong)
