"""A CSV object as records: its columns, found in its first block, and the blocks to read."""

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
    """The columns of a CSV object. All of them are text, and every record has them."""

    names: tuple[str, ...]
    """What each is called by DataFusion: `_1`, `_2`, …"""
    labels: tuple[str, ...]
    """What each is called by the object's first record, or by its place."""
    headed: bool = False
    prunes: bool = False

    def knows(self, path: Path) -> bool:
        """Whether there is such a column."""
        return len(path) == 1 and isinstance(path[0], FieldName) and bool(self._found(path[0]))

    def field(self, path: Path) -> Field:
        """The column of that name or number."""
        name = path[0] if len(path) == 1 else None
        if not isinstance(name, FieldName):
            raise failure(SelectCode.INVALID_KEY_PATH, "a CSV object has columns, and nothing within them")
        found = self._found(name)
        if len(found) > 1:
            raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, f"ambiguous column name. name={name.text}")
        if not found:
            if name.text.startswith("_") and name.text[1:].isdigit():
                raise no_such_column(SelectCode.INVALID_COLUMN_INDEX, name.text, self.names)
            code = SelectCode.MISSING_HEADER_NAME if self.headed else SelectCode.EVALUATOR_BINDING_DOES_NOT_EXIST
            raise no_such_column(code, name.text, self.labels)
        return self._field(found[0])

    def fields(self) -> tuple[Field, ...]:
        """All columns."""
        return tuple(self._field(number) for number in range(len(self.names)))

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """The column: text, whatever it is wanted as."""
        name = field.path[0]
        assert isinstance(name, FieldName)  # noqa: S101  # as `_field` made it
        return ScanColumn(name.text, SqlKind.TEXT)

    def presence(self, field: Field) -> str | None:
        """Every record has every column, if only as null."""
        return None

    def places(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """What the columns of another object are called, so that those with our labels have our names.

        Raises SelectError (MissingHeaderName) if it lacks one.
        """
        if labels == self.labels:
            return self.names
        if not self.headed:
            return max(self.names, labels, key=len)
        missing = [label for label in self.labels if label not in labels]
        if missing:
            raise failure(
                SelectCode.MISSING_HEADER_NAME, f"a column of the first object is not there. name={missing[0]}"
            )
        known = dict(zip(self.labels, self.names, strict=True))
        return tuple(known.get(label, f"other{number}") for number, label in enumerate(labels))

    def _field(self, number: int) -> Field:
        return Field(self.labels[number], SqlKind.TEXT, (FieldName(self.names[number], quoted=True),))

    def _found(self, name: FieldName) -> list[int]:
        found = [number for number, label in enumerate(self.labels) if name.matches(label)]
        if not found:
            # The place of a column is its name too.
            found = [number for number, place in enumerate(self.names) if name.matches(place)]
        return found


def open_csv(
    source: ObjectBytes,
    options: CsvInput,
    compression: Compression,
    asked: ScanRange | None,
    meter: Meter,
    like: CsvRelation | None = None,
) -> tuple[CsvRelation, BlockScan]:
    """A CSV object, ready to be read. Blocks. Raises SelectError."""
    delimiter = options.record_delimiter.encode()
    if asked is None:
        blocks = Blocks(open_stream(source, compression, meter), cut_records(options))
        head = blocks.first()
    else:
        head = source.read_at(0, MAX_RECORD_BYTES + FIRST_BLOCK_BYTES)
        start, stop = (first_record(source, offset, delimiter) for offset in resolve_range(asked, source.size))
        after = _header_bytes(head, options)
        start, stop = max(start, after), max(stop, after)
        blocks = Blocks(open_stream(source, compression, meter, start, stop), cut_records(options))
    header = _header(head, options)
    if asked is None:
        blocks.replace_first(head[_header_bytes(head, options) :])
    if options.header is HeaderUse.USE and header is not None:
        count = len(header)
    else:
        sample = islice(read_records(_sample(blocks.first(), options), options), _SAMPLED_RECORDS)
        count = max((len(record) for record in sample), default=0)
        count = max(count, len(header or ()))
    if count > MAX_COLUMNS:
        raise failure(SelectCode.OVER_MAX_COLUMN, f"too many columns. maximum={MAX_COLUMNS} found={count}")
    # An object without a record has one column that nothing is in.
    names = tuple(f"_{number}" for number in range(1, max(count, 1) + 1))
    labels = names
    if options.header is HeaderUse.USE:
        labels = tuple(label or name for label, name in zip(header or names, names, strict=True))
    if like is not None:
        names = like.places(labels)
    relation = like or CsvRelation(names, labels, headed=options.header is HeaderUse.USE)
    schema = pa.schema([(name, pa.string()) for name in names])
    return relation, BlockScan(schema, blocks, CsvReader(options, list(names)).read, threaded=True)


def _header(head: bytes, options: CsvInput) -> list[str] | None:
    if options.header is HeaderUse.NONE:
        return None
    text = decode(head[: _header_bytes(head, options)]).removeprefix("\ufeff")
    return next(read_records(text, options), None)


def _header_bytes(head: bytes, options: CsvInput) -> int:
    """Where the data begin: after the mark of UTF-8, and after the header with the comments before it."""
    at = len(_BOM) if head.startswith(_BOM) else 0
    if options.header is HeaderUse.NONE:
        return at
    delimiter, comments = options.record_delimiter.encode(), options.comments.encode()
    cut = cut_records(options)
    while at < len(head):
        end = head.find(delimiter, at)
        # With quotes, as many lines as it takes for a record to end.
        while end >= 0 and not cut(head[at : end + len(delimiter)]):
            end = head.find(delimiter, end + len(delimiter))
        after = len(head) if end < 0 else end + len(delimiter)
        line = head[at:after]
        if not (comments and line.startswith(comments)) and line.strip(b"\r\n" if delimiter == b"\n" else delimiter):
            return after
        at = after
    return at


def _sample(block: bytes, options: CsvInput) -> str:
    # Cut at a record: what is sampled has to be read without looking further.
    part = block[:FIRST_BLOCK_BYTES]
    whole = cut_records(options)(part) if len(part) < len(block) else len(part)
    return decode(part[:whole])
