"""Reads CSV objects: finds their columns in the first block, and scans blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ..dialect.paths import FieldName, Path
from ..errors import SelectCode, failure, no_such_column
from ..execution.relation import Field, ReadAs, ScanColumn, SqlKind
from ..execution.scanning import BlockScan
from ..model import MAX_RECORD_BYTES, Compression, CsvInput, HeaderUse, ScanRange
from ..sources.byte_streams import Meter, open_stream
from ..sources.record_blocks import FIRST_BLOCK_BYTES, Blocks, first_record, resolve_range
from .csv_reader import CsvReader, cut_records
from .csv_records import decode, read_records

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

_BOM: Final = b"\xef\xbb\xbf"
_SAMPLED_RECORDS: Final = 1000
MAX_COLUMNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class CsvRelation:
    """The columns of a CSV object. All are text, and every record has them."""

    names: tuple[str, ...]
    """Names in DataFusion: `_1`, `_2`, …"""
    labels: tuple[str, ...]
    """Names from the header, or by position."""
    has_header: bool = False
    prunes: bool = False

    def has_field(self, path: Path) -> bool:
        """Whether such a column exists."""
        return len(path) == 1 and isinstance(path[0], FieldName) and bool(self._found(path[0]))

    def field(self, path: Path) -> Field:
        """The column by name or number."""
        name = path[0] if len(path) == 1 else None
        if not isinstance(name, FieldName):
            raise failure(SelectCode.INVALID_KEY_PATH, "CSV columns have no nested fields")
        found = self._found(name)
        if len(found) > 1:
            raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, f"ambiguous column name. name={name.text}")
        if not found:
            if name.text.startswith("_") and name.text[1:].isdigit():
                raise no_such_column(SelectCode.INVALID_COLUMN_INDEX, name.text, self.names)
            code = SelectCode.MISSING_HEADER_NAME if self.has_header else SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST
            raise no_such_column(code, name.text, self.labels)
        return self._field(found[0])

    def fields(self) -> tuple[Field, ...]:
        """All columns."""
        return tuple(self._field(number) for number in range(len(self.names)))

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """The column, always as text."""
        name = field.path[0]
        assert isinstance(name, FieldName)  # noqa: S101  # created by `_field`
        return ScanColumn(name.text, SqlKind.TEXT)

    def presence(self, field: Field) -> str | None:
        """None: every record has every column, possibly null."""
        return None

    def names_for(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Names for the columns of another object, so that columns with equal labels have equal names.

        Raises SelectError (MissingHeaderName) if it lacks a column.
        """
        if labels == self.labels:
            return self.names
        if not self.has_header:
            return max(self.names, labels, key=len)
        missing = [label for label in self.labels if label not in labels]
        if missing:
            raise failure(
                SelectCode.MISSING_HEADER_NAME, f"object lacks a column of the first object. name={missing[0]}"
            )
        known = dict(zip(self.labels, self.names, strict=True))
        return tuple(known.get(label, f"other{number}") for number, label in enumerate(labels))

    def _field(self, number: int) -> Field:
        return Field(self.labels[number], SqlKind.TEXT, (FieldName(self.names[number], quoted=True),))

    def _found(self, name: FieldName) -> list[int]:
        found = [number for number, label in enumerate(self.labels) if name.matches(label)]
        if not found:
            # A column can be named by its position too.
            found = [number for number, column in enumerate(self.names) if name.matches(column)]
        return found


def open_csv(
    source: ObjectBytes,
    options: CsvInput,
    compression: Compression,
    scan_range: ScanRange | None,
    meter: Meter,
    like: CsvRelation | None = None,
) -> tuple[CsvRelation, BlockScan]:
    """Open a CSV object. Blocks. Raises SelectError."""
    delimiter = options.record_delimiter.encode()
    if scan_range is None:
        blocks = Blocks(open_stream(source, compression, meter), cut_records(options))
        head = blocks.first()
    else:
        head = source.read_at(0, MAX_RECORD_BYTES + FIRST_BLOCK_BYTES)
        start, stop = (first_record(source, offset, delimiter) for offset in resolve_range(scan_range, source.size))
        after = _header_bytes(head, options)
        start, stop = max(start, after), max(stop, after)
        blocks = Blocks(open_stream(source, compression, meter, start, stop), cut_records(options))
    header = _header(head, options)
    if scan_range is None:
        blocks.replace_first(head[_header_bytes(head, options) :])
    if options.header is HeaderUse.USE and header is not None:
        count = len(header)
    else:
        sample = islice(read_records(_sample(blocks.first(), options), options), _SAMPLED_RECORDS)
        count = max((len(record) for record in sample), default=0)
        count = max(count, len(header or ()))
    if count > MAX_COLUMNS:
        raise failure(SelectCode.OVER_MAX_COLUMN, f"too many columns. maximum={MAX_COLUMNS} found={count}")
    # An object without records has one column without values.
    names = tuple(f"_{number}" for number in range(1, max(count, 1) + 1))
    labels = names
    if options.header is HeaderUse.USE:
        labels = tuple(label or name for label, name in zip(header or names, names, strict=True))
    if like is not None:
        names = like.names_for(labels)
    relation = like or CsvRelation(names, labels, has_header=options.header is HeaderUse.USE)
    schema = pa.schema([(name, pa.string()) for name in names])
    return relation, BlockScan(schema, blocks, CsvReader(options, list(names)).read, threaded=True)


def _header(head: bytes, options: CsvInput) -> list[str] | None:
    if options.header is HeaderUse.NONE:
        return None
    text = decode(head[: _header_bytes(head, options)]).removeprefix("\ufeff")
    return next(read_records(text, options), None)


def _header_bytes(head: bytes, options: CsvInput) -> int:
    """Start of the data: after the byte order mark, comments and the header."""
    at = len(_BOM) if head.startswith(_BOM) else 0
    if options.header is HeaderUse.NONE:
        return at
    delimiter, comments = options.record_delimiter.encode(), options.comments.encode()
    cut = cut_records(options)
    while at < len(head):
        end = head.find(delimiter, at)
        # A quoted header may span several lines.
        while end >= 0 and not cut(head[at : end + len(delimiter)]):
            end = head.find(delimiter, end + len(delimiter))
        after = len(head) if end < 0 else end + len(delimiter)
        line = head[at:after]
        if not (comments and line.startswith(comments)) and line.strip(b"\r\n" if delimiter == b"\n" else delimiter):
            return after
        at = after
    return at


def _sample(block: bytes, options: CsvInput) -> str:
    # Only whole records, so that the sample can be parsed.
    part = block[:FIRST_BLOCK_BYTES]
    whole = cut_records(options)(part) if len(part) < len(block) else len(part)
    return decode(part[:whole])
