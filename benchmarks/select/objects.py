"""The objects that are selected from: the same rows in each format, made once."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import csv, parquet

MIB: Final = 1024 * 1024
_CHUNK_ROWS: Final = 100_000
_WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour")


def csv_object(path: Path, size: int) -> int:
    """Write so many bytes of CSV, and give the number of rows."""
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            csv.write_csv(_table(rows), file, csv.WriteOptions(include_header=rows == 0, quoting_style="none"))
            rows += _CHUNK_ROWS
    return rows


def gzip_object(path: Path, source: Path) -> None:
    """The same, compressed as a whole."""
    with source.open("rb") as plain, gzip.open(path, "wb", compresslevel=1) as packed:
        shutil.copyfileobj(plain, packed, MIB)


def json_object(path: Path, rows: int) -> None:
    """So many rows as lines of JSON."""
    with path.open("w") as file:
        for first in range(0, rows, _CHUNK_ROWS):
            columns = _table(first).to_pydict()
            for identity, amount, price, word, text in zip(*columns.values(), strict=True):
                file.write(f'{{"id":{identity},"amount":{amount},"price":{price},"word":"{word}","text":"{text}"}}\n')


def parquet_object(path: Path, rows: int) -> None:
    """So many rows as Parquet."""
    with parquet.ParquetWriter(path, _table(0).schema) as writer:
        for first in range(0, rows, _CHUNK_ROWS):
            writer.write_table(_table(first))


def _table(first: int) -> pa.Table:
    numbers = range(first, first + _CHUNK_ROWS)
    return pa.table(
        {
            "id": list(numbers),
            "amount": [number * 7919 % 1_000_000 for number in numbers],
            "price": [number % 10_007 / 100 for number in numbers],
            "word": [_WORDS[number % len(_WORDS)] for number in numbers],
            "text": [f"row {number} has some text that nobody asks for, as rows have" for number in numbers],
        }
    )
