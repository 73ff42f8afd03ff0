"""Reads JSON objects: the records are its values, or the values at the path after FROM in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from ..dialect.paths import MISSING, FieldName, Path, PathWildcard, Step, follow, unfold
from ..errors import SelectCode, SelectError, failure, nested_too_deeply
from ..execution.relation import Field, ReadAs, ScanColumn, SqlKind
from ..execution.scanning import BlockScan, SampledBlocks
from ..model import Compression, JsonInput, JsonKind, ScanRange
from ..sources.byte_streams import Meter, open_stream
from ..sources.record_blocks import Blocks, check_lengths, cut_after, first_record, resolve_range
from ..sources.snappy_frames import ByteReader
from .json_documents import DocumentScanner
from .json_reader import TypedLineReader, typed_lines
from .json_scanner import RECORD_COLUMN, JsonLibrary, LineScanner, line_scanner, load_library
from .value_columns import ValueColumns, to_json

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

_SAMPLED_RECORDS: Final = 1000
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_VALUES: Final = 16_384
_BOM: Final = b"\xef\xbb\xbf"

_decoder: Final = msgspec.json.Decoder()
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class JsonRelation:
    """The fields of JSON records. Any path may name one; a record has it or not."""

    prunes = False

    def __init__(self, columns: ValueColumns, label: str) -> None:
        self.columns = columns
        self._label = label
        self.whole = False
        """Whether whole records are requested."""

    def has_field(self, path: Path) -> bool:
        """Whether the sample has the field."""
        return bool(path) and self.columns.in_sample(path)

    def field(self, path: Path) -> Field:
        """The field at a path; the record for an empty path."""
        if not path:
            return self.columns.field((), self._label)
        return self.columns.field(path)

    def fields(self) -> tuple[Field, ...]:
        """The whole record."""
        return (Field("", SqlKind.RECORD),)

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """The column for a field."""
        if field.kind is SqlKind.RECORD:
            self.whole = True
            return ScanColumn(RECORD_COLUMN, SqlKind.RECORD)
        return self.columns.column(field, view)

    def presence(self, field: Field) -> str | None:
        """The presence column. Whole records are always present; a missing one is written as an empty object."""
        return None if field.kind is SqlKind.RECORD else self.columns.presence(field)

    @property
    def schema(self) -> pa.Schema:
        """The requested columns."""
        fields = self.columns.schema_fields + ([(RECORD_COLUMN, pa.string())] if self.whole else [])
        # Without requested columns, as for COUNT(*), the table still needs one.
        return pa.schema(fields or [(RECORD_COLUMN, pa.string())])


def open_json(
    source: ObjectBytes,
    options: JsonInput,
    path: Path,
    compression: Compression,
    scan_range: ScanRange | None,
    meter: Meter,
    like: JsonRelation | None = None,
) -> tuple[JsonRelation, BlockScan]:
    """Open a JSON object. Blocks. Raises SelectError."""
    start, stop = 0, None
    if scan_range is not None:
        start, stop = (first_record(source, offset, b"\n") for offset in resolve_range(scan_range, source.size))
    stream = open_stream(source, compression, meter, start, stop)
    reader: LineReader | DocumentReader
    blocks: Blocks | DocumentBlocks
    if options.kind is JsonKind.LINES:
        blocks, reader = Blocks(stream, cut_after(b"\n")), LineReader(path, load_library())
        block = blocks.first()
        sample = [] if like is not None else reader.values(_first_lines(block))
    else:
        prefix, rest = split_path(path)
        blocks, reader = DocumentBlocks(stream, prefix), DocumentReader(rest)
        sample = [] if like is not None else reader.values(blocks.first())
    relation = like or JsonRelation(ValueColumns(sample[:_SAMPLED_RECORDS]), _label(path))
    reader.columns = relation.columns
    return relation, BlockScan(lambda: relation.schema, blocks, reader.read, threaded=reader.threaded)


def split_path(path: Path) -> tuple[Path, Path]:
    """The path up to and including its first wildcard, and the rest, which is followed in decoded values."""
    for number, step in enumerate(path):
        if isinstance(step, PathWildcard):
            return path[: number + 1], path[number + 1 :]
    return (), path


class LineReader:
    """Reads blocks of JSON lines, one value per line."""

    columns: ValueColumns

    def __init__(self, path: Path, library: JsonLibrary | None) -> None:
        self._path = path
        # The C library scans records that are whole lines only.
        self._library = None if path else library
        self.threaded = self._library is not None
        self._scanner: tuple[list[str], LineScanner | None] | None = None
        self._typed: tuple[list[str], TypedLineReader | None] | None = None
        self._narrow: tuple[list[str], msgspec.json.Decoder[Any] | None] = ([], None)

    def values(self, block: bytes) -> list[object]:
        """The records of a block."""
        decoded = _decode_lines(_lines(block), _decoder)
        if not self._path:
            return decoded
        return [record for value in decoded for record in unfold(value, self._path)]

    def read(self, block: bytes, wanted: list[str]) -> pa.RecordBatch:
        """The wanted columns of a block. Raises SelectError."""
        check_lengths(block, b"\n")
        scanner = self._line_scanner(wanted)
        scanned = None if scanner is None else scanner.read(block)
        if scanned is None:
            return self._read_values(block, wanted)
        if not scanned.fallback:
            return scanned.batch
        try:
            return scanned.with_fallback(self._read_values(scanned.lines, wanted))
        except SelectError:
            # The error should name the line in the whole block.
            return self._read_values(block, wanted)

    def _read_values(self, block: bytes, wanted: list[str]) -> pa.RecordBatch:
        """The same, by decoding values."""
        if not self._path and not (wanted and RECORD_COLUMN in wanted):
            typed = self._typed_lines(wanted)
            found = None if typed is None else typed.read(block)
            if found is None:
                found = self._read_narrow(block, wanted)
            if found is not None:
                return found
        lines = _lines(block)
        values = _decode_lines(lines, _decoder)
        if self._path:
            values = [record for value in values for record in unfold(value, self._path)]
            return build(self.columns, values, wanted)
        return build(self.columns, values, wanted, lines)

    def _line_scanner(self, wanted: list[str]) -> LineScanner | None:
        if self._library is None:
            return None
        cached = self._scanner
        if cached is None or cached[0] != wanted:
            self._scanner = cached = (wanted, line_scanner(self._library, self.columns, wanted))
        return cached[1]

    def _typed_lines(self, wanted: list[str]) -> TypedLineReader | None:
        cached = self._typed
        if cached is None or cached[0] != wanted:
            self._typed = cached = (wanted, typed_lines(self.columns, wanted))
        return cached[1]

    def _read_narrow(self, block: bytes, wanted: list[str]) -> pa.RecordBatch | None:
        """The same, without decoding other fields; None if all fields have to be decoded."""
        paths = self.columns.paths(wanted)
        if not all(path and isinstance(path[0], FieldName) and path[0].quoted for path in paths):
            return None
        names = sorted({path[0].text for path in paths if isinstance(path[0], FieldName)})
        cached_names, decoder = self._narrow
        if decoder is None or cached_names != names:
            fields = [(f"f{number}", Any, msgspec.UNSET) for number in range(len(names))]
            shape = msgspec.defstruct(
                "Record", fields, rename={f"f{number}": name for number, name in enumerate(names)}, gc=False
            )
            decoder = msgspec.json.Decoder(shape)
            self._narrow = (names, decoder)
        try:
            records = decoder.decode_lines(block)
        except _UNREADABLE:
            # Not an object, a blank line, or invalid JSON: the general reader reports it.
            return None
        arrays: dict[str, pa.Array] = {}
        for path, columns in paths.items():
            head = path[0]
            assert isinstance(head, FieldName)  # noqa: S101  # checked above
            attribute = f"f{names.index(head.text)}"
            found = [getattr(record, attribute) for record in records]
            values = [
                MISSING if value is msgspec.UNSET else value if len(path) == 1 else follow(value, path[1:])
                for value in found
            ]
            arrays |= {name: self.columns.array(name, values) for name in columns}
        return _batch(arrays, wanted, len(records))


class DocumentBlocks(SampledBlocks[bytes | None]):
    """Values of a stream in blocks."""

    def __init__(self, stream: ByteReader, path: Path) -> None:
        super().__init__()
        self._values = DocumentScanner(stream, path).values()

    def _read(self) -> list[bytes | None]:
        block: list[bytes | None] = []
        size = 0
        for value in self._values:
            block.append(value)
            size += len(value or b"")
            if size >= _BATCH_BYTES or len(block) >= _BATCH_VALUES:
                break
        return block


class DocumentReader:
    """Reads values found in a document."""

    columns: ValueColumns
    threaded = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def values(self, block: Sequence[bytes | None]) -> list[object]:
        """The records of a block."""
        return [
            record for text in block for record in ([MISSING] if text is None else unfold(_decode(text), self._path))
        ]

    def read(self, block: Sequence[bytes | None], wanted: list[str]) -> pa.RecordBatch:
        """The wanted columns of a block. Raises SelectError."""
        return build(self.columns, self.values(block), wanted)


def build(
    columns: ValueColumns, values: Sequence[object], wanted: list[str], texts: list[bytes] | None = None
) -> pa.RecordBatch:
    """The wanted columns of decoded records; `texts` is the records' original text, if known."""
    arrays: dict[str, pa.Array] = {}
    if RECORD_COLUMN in wanted:
        if texts is not None and len(texts) == len(values):
            arrays[RECORD_COLUMN] = pa.array(texts, pa.binary()).cast(pa.string())
        else:
            # Nested records, or several per line, have no text of their own.
            arrays[RECORD_COLUMN] = pa.array(["{}" if value is MISSING else to_json(value) for value in values])
    for path, names in columns.paths([name for name in wanted if name != RECORD_COLUMN]).items():
        found = [follow(value, path) for value in values] if path else values
        arrays |= {name: columns.array(name, found) for name in names}
    return _batch(arrays, wanted, len(values))


def _batch(arrays: dict[str, pa.Array], wanted: list[str], count: int) -> pa.RecordBatch:
    if not wanted:
        return pa.RecordBatch.from_arrays([pa.nulls(count)], names=["none"]).select([])
    return pa.RecordBatch.from_arrays([arrays[name] for name in wanted], names=wanted)


def _lines(block: bytes) -> list[bytes]:
    return [stripped for line in block.removeprefix(_BOM).split(b"\n") if (stripped := line.strip())]


def _first_lines(block: bytes) -> bytes:
    """The part of the first block that is sampled."""
    at = 0
    for _ in range(_SAMPLED_RECORDS):
        found = block.find(b"\n", at)
        if found < 0:
            return block
        at = found + 1
    return block[:at]


def _decode_lines(lines: list[bytes], decoder: msgspec.json.Decoder[Any]) -> list[Any]:
    try:
        return decoder.decode_lines(b"\n".join(lines))
    except _UNREADABLE:
        # Decode line by line, to name the invalid one.
        return [_decode(line, number) for number, line in enumerate(lines, 1)]


def _decode(text: bytes, line: int | None = None) -> object:
    try:
        return _decoder.decode(text)
    except _UNREADABLE as error:
        raise _malformed(text, error, line) from error


def _malformed(text: bytes, error: Exception, line: int | None) -> SelectError:
    if isinstance(error, RecursionError):
        return nested_too_deeply()
    if "utf-8" in str(error).lower():
        return failure(SelectCode.INVALID_TEXT_ENCODING, "the object is not valid UTF-8")
    near = text[:40].decode("utf-8", "replace")
    where = "" if line is None else f" line={line} of its block"
    return failure(SelectCode.JSON_PARSING_ERROR, f"invalid JSON value. near={near!r}{where}")


def _label(path: Path) -> str:
    """The label of a record in a list of columns."""
    last: Step | None = path[-1] if path else None
    return last.text if isinstance(last, FieldName) else "_1"
