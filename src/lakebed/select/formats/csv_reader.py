"""Reads blocks of CSV to Arrow columns.

Arrow's CSV reader is an order of magnitude faster than ours but supports less: no comments, one-character delimiters,
newlines between records, records with the same number of fields. A block is rewritten so that Arrow reads it correctly.
If that is impossible, or Arrow rejects it, `csv_records.py` reads it and reports errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import csv

from ..errors import SelectCode, SelectError, failure
from ..model import CsvInput
from ..sources.record_blocks import Cut, check_lengths, cut_after
from .csv_records import decode, read_records

_SMALL_BYTES: Final = 32 * 1024
"""Smaller plain blocks are split in Python, because Arrow starts a thread for each read."""
_BLANK_LINES: Final = re.compile(rb"^\r?\n", re.MULTILINE)
_UNIT_SEPARATOR: Final = b"\x1f"
"""Replaces a delimiter of several characters, in blocks that do not contain this character."""
_SENTINEL: Final = "\x02"
"""A record appended to a block. If a quote is still open there, the last field contains it."""


def cut_records(options: CsvInput) -> Cut:
    """How to cut blocks of such a file."""
    delimiter = options.record_delimiter.encode()
    if not options.allow_quoted_record_delimiter or not options.quote:
        return cut_after(delimiter)
    quote, escape = options.quote.encode(), options.escape.encode()

    def cut(data: bytes) -> int:
        """Cut after the last delimiter with an even number of quotes before it, which is outside quotes."""
        if escape and escape != quote and escape in data:
            # Mask escaped quotes without changing the length.
            data = re.sub(re.escape(escape) + b"(?s:.)", lambda found: b"\0" * len(found[0]), data)
        quotes = data.count(quote)
        end = len(data)
        while (found := data.rfind(delimiter, 0, end)) >= 0:
            quotes -= data.count(quote, found, end)
            if quotes % 2 == 0:
                return found + len(delimiter)
            end = found
        return 0

    return cut


class CsvReader:
    """Reads blocks of one file."""

    def __init__(self, options: CsvInput, names: list[str]) -> None:
        self._options = options
        self._names = names
        self._delimiter = options.record_delimiter.encode()
        self._field = options.field_delimiter.encode()
        self._quote = options.quote.encode()
        self._escape = options.escape.encode()
        self._comments = options.comments.encode()
        self._comment_lines = re.compile(rb"^" + re.escape(self._comments) + rb"[^\n]*(?:\n|\Z)", re.MULTILINE)

    def read(self, block: bytes, wanted: list[str]) -> pa.RecordBatch:
        """The wanted columns of a block. Raises SelectError."""
        if not self._options.allow_quoted_record_delimiter:
            check_lengths(block, self._delimiter)
        if len(block) <= _SMALL_BYTES and self._is_plain(block):
            return self._columns(self._split(block), wanted)
        fast = self._fast(block, wanted)
        return self._columns(read_records(decode(block), self._options), wanted) if fast is None else fast

    def _is_plain(self, block: bytes) -> bool:
        """Whether records and fields can be split at their delimiters."""
        special = (self._quote, self._comments, b"\r" if self._delimiter == b"\n" else b"")
        return not any(text and text in block for text in special)

    def _split(self, block: bytes) -> Iterator[list[str]]:
        field, delimiter = self._options.field_delimiter, self._options.record_delimiter
        return (record.split(field) for record in decode(block).split(delimiter) if record)

    def _fast(self, block: bytes, wanted: list[str]) -> pa.RecordBatch | None:
        quoted = bool(self._quote) and self._quote in block
        if self._escape and self._escape != self._quote and quoted and self._escape in block:
            return None
        if quoted and (len(self._quote) > 1 or self._ends_in_quotes(block)):
            return None
        data = self._with_line_ends(block)
        if data is None:
            return None
        lines_are_records = not (quoted and self._options.allow_quoted_record_delimiter)
        data = self._without_comments(data, lines_are_records)
        if data is None:
            return None
        field = self._field
        if len(field) > 1:
            if quoted or _UNIT_SEPARATOR in data:
                return None
            data, field = data.replace(field, _UNIT_SEPARATOR), _UNIT_SEPARATOR
        elif field > b"\x7f":
            return None
        found = self._parse(data, field, quoted, wanted)
        if found is None and lines_are_records and (blank := _BLANK_LINES.sub(b"", data)) != data:
            # Only on failure: most files have no blank lines, and the search takes half the time of reading.
            found = self._parse(blank, field, quoted, wanted)
        return found

    def _ends_in_quotes(self, block: bytes) -> bool:
        """Whether a quote may be open at the end, which Arrow accepts as closed."""
        if block.count(self._quote) % 2:
            return True
        if self._options.allow_quoted_record_delimiter:
            # A quote may have been opened in any record: `_parse` detects it with the sentinel.
            return False
        last = block[block.rfind(self._delimiter, 0, len(block) - len(self._delimiter)) + 1 :]
        if self._quote not in last:
            return False
        try:
            list(read_records(decode(last), self._options))
        except SelectError:
            return True
        return False

    def _with_line_ends(self, data: bytes) -> bytes | None:
        """The block with newlines as record delimiters; None if it contains other newlines."""
        if self._delimiter == b"\n":
            if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
                return None
            return data
        if self._delimiter == b"\r\n":
            pairs = data.count(b"\r\n")
            return data if data.count(b"\n") == pairs and data.count(b"\r") == pairs else None
        if b"\n" in data or b"\r" in data:
            return None
        return data.replace(self._delimiter, b"\n")

    def _without_comments(self, data: bytes, lines_are_records: bool) -> bytes | None:
        """The block without comments; None if a quoted line could be mistaken for one."""
        # Searching one character is much faster than two.
        if not self._comments or self._comments not in data:
            return data
        if data.startswith(self._comments) or b"\n" + self._comments in data:
            return self._comment_lines.sub(b"", data) if lines_are_records else None
        return data

    def _parse(self, data: bytes, field: bytes, quoted: bool, wanted: list[str]) -> pa.RecordBatch | None:
        if not data:
            return self._batch([[] for _ in wanted], wanted)
        allowed = self._options.allow_quoted_record_delimiter
        # Without quotes and carriage returns, every line is a record, except blank ones, which are skipped.
        is_plain = not quoted and b"\r" not in data
        read = wanted or self._names[:1]
        may_be_open = allowed and quoted
        if may_be_open:
            data += b"" if data.endswith(b"\n") else b"\n"
            data += field.join([_SENTINEL.encode()] * len(self._names))
        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
                csv.ParseOptions(
                    delimiter=field.decode(),
                    quote_char=self._quote.decode() if quoted else False,
                    double_quote=True,
                    escape_char=False,
                    newlines_in_values=allowed,
                    ignore_empty_lines=True,
                ),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(read, pa.string()),
                    include_columns=read,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            return None
        if may_be_open:
            if table.num_rows == 0 or table.column(0)[-1].as_py() != _SENTINEL:
                return None
            table = table.slice(0, table.num_rows - 1)
        elif not is_plain:
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if table.num_rows != lines:
                # A quoted delimiter, or something else that Arrow reads differently.
                return None
        batches = table.combine_chunks().to_batches()
        return batches[0].select(wanted) if batches else self._batch([[] for _ in wanted], wanted)

    def _columns(self, found: Iterator[list[str]], wanted: list[str]) -> pa.RecordBatch:
        count = len(self._names)
        records = list(found)
        for record in records:
            if len(record) > count:
                raise failure(
                    SelectCode.CSV_PARSING_ERROR,
                    f"record has more fields than columns. columns={count} fields={len(record)}",
                )
        positions = [self._names.index(name) for name in wanted] if wanted else []
        columns = [
            [record[position] if position < len(record) else None for record in records] for position in positions
        ]
        if not wanted:
            return self._batch([[None] * len(records)], self._names[:1]).select([])
        return self._batch(columns, wanted)

    def _batch(self, columns: list[list[str | None]], names: list[str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names=names)
