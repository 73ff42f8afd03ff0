"""The queried objects: the same kind of rows in each format, up to a given size."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv, parquet

MIB: Final = 1024 * 1024
SMALL_OBJECTS: Final = 1000
_CHUNK_ROWS: Final = 100_000
_SMALL_ROWS: Final = 100
_TEXT_BYTES: Final = 48
_WORDS: Final = pa.array(["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour"])
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", dtype=np.uint8)


def csv_object(path: Path, size: int) -> None:
    """Write so many bytes of CSV, with a header."""
    chunk = 0
    with path.open("wb") as file:
        while file.tell() < size:
            csv.write_csv(_rows(chunk), file, csv.WriteOptions(include_header=chunk == 0, quoting_style="none"))
            chunk += 1


def gzip_object(path: Path, source: Path) -> None:
    """Compress a file with gzip."""
    with source.open("rb") as plain, gzip.open(path, "wb", compresslevel=1) as packed:
        shutil.copyfileobj(plain, packed, MIB)


def json_object(path: Path, size: int) -> None:
    """Write so many bytes of JSON lines."""
    chunk = 0
    with path.open("wb") as file:
        while file.tell() < size:
            rows = _rows(chunk)
            parts: list[pa.Array | pa.Scalar] = []
            for number, name in enumerate(rows.column_names):
                column = rows[name].combine_chunks()
                mark = '"' if pa.types.is_string(column.type) else ""
                parts += [pa.scalar(f'{"," if number else "{"}"{name}":{mark}'), column.cast(pa.string())]
                parts += [pa.scalar(mark)]
            lines = pc.binary_join_element_wise(*parts, pa.scalar("}\n"), pa.scalar(""))
            file.write(lines.buffers()[2])
            chunk += 1


def parquet_object(path: Path, size: int) -> None:
    """Write so many bytes of Parquet, in row groups of 100,000."""
    chunk = 0
    with path.open("wb") as file, parquet.ParquetWriter(file, _rows(0).schema) as writer:
        while file.tell() < size:
            writer.write_table(_rows(chunk))
            chunk += 1


def small_objects(folder: Path) -> None:
    """Write a thousand CSV files of some KiB each."""
    folder.mkdir()
    for number in range(SMALL_OBJECTS):
        with (folder / f"{number:04}.csv").open("wb") as file:
            csv.write_csv(_rows(number, _SMALL_ROWS), file, csv.WriteOptions(quoting_style="none"))


def _rows(chunk: int, count: int = _CHUNK_ROWS) -> pa.Table:
    numbers = np.arange(chunk * count, (chunk + 1) * count, dtype=np.int64)
    # Text that does not compress, so that stored and read sizes are equal.
    letters = _LETTERS[np.random.default_rng(chunk).integers(0, len(_LETTERS), count * _TEXT_BYTES)]
    offsets = np.arange(0, (count + 1) * _TEXT_BYTES, _TEXT_BYTES, dtype=np.int32)
    return pa.table(
        {
            "id": numbers,
            "amount": numbers * 7919 % 1_000_000,
            "price": numbers % 10_007 / 100,
            "word": _WORDS.take(pa.array(numbers % len(_WORDS))),
            "text": pa.StringArray.from_buffers(
                count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())
            ),
        }
    )
