"""Writes results as CSV, JSON, Arrow or Parquet."""

from __future__ import annotations

import io
from typing import Protocol

import msgspec
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import ipc, parquet

from ..errors import nested_too_deeply
from ..execution.query import OutputColumn
from ..execution.relation import SqlKind
from ..formats.value_columns import to_text
from ..model import ArrowOutput, CsvOutput, JsonOutput, ParquetOutput, QuoteFields
from ..model import Output as Format
from .values import has_any, joined, json_text, lines, plain_text, quoted_json


class Writer(Protocol):
    """Converts batches of a result to bytes."""

    def write(self, batch: pa.RecordBatch) -> bytes:
        """The bytes of a batch, or of earlier ones that were buffered. Raises SelectError (OverMaxRecordSize)."""
        ...

    def finish(self) -> bytes:
        """The remaining bytes."""
        ...


def open_writer(wanted: Format, outputs: tuple[OutputColumn, ...]) -> Writer:
    """The writer of a result."""
    match wanted:
        case CsvOutput():
            return CsvWriter(wanted, outputs)
        case JsonOutput():
            return JsonWriter(wanted, outputs)
        case ArrowOutput() | ParquetOutput():
            return ColumnarWriter(outputs, as_parquet=isinstance(wanted, ParquetOutput))


class CsvWriter:
    """Writes records as lines of fields."""

    def __init__(self, options: CsvOutput, outputs: tuple[OutputColumn, ...]) -> None:
        self._options = options
        self._outputs = outputs
        self._special = [
            text for text in {options.quote, options.field_delimiter, options.record_delimiter, "\n", "\r"} if text
        ]

    def write(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        if self._outputs and self._outputs[0].kind is SqlKind.RECORD:
            rows = pa.array(
                [self._record(text) for text in batch.column(self._outputs[0].column).to_pylist()], pa.string()
            )
        else:
            fields = [self._fields(plain_text(batch.column(output.column), output.kind)) for output in self._outputs]
            if self._is_plain(fields):
                return lines(fields, self._options.field_delimiter)
            parts = [part for field in fields for part in (self._options.field_delimiter, field)][1:]
            return joined(parts, self._options.record_delimiter)
        return joined([rows], self._options.record_delimiter)

    def finish(self) -> bytes:
        """Nothing remains."""
        return b""

    def _is_plain(self, fields: list[pa.Array]) -> bool:
        """Whether Arrow's writer, which is much faster, writes the same."""
        end, between = self._options.record_delimiter, self._options.field_delimiter
        if end != "\n" or len(between) != 1 or not between.isascii():
            return False
        return not any(has_any(field, f'"\r\n{between}'.encode()) for field in fields)

    def _fields(self, column: pa.Array) -> pa.Array:
        options = self._options
        if not options.quote:
            return column
        if options.quote_fields is QuoteFields.ALWAYS:
            return self._quote(column.fill_null(""))
        if not has_any(column, "".join(self._special).encode()):
            return column
        quoted = pc.match_substring(column, self._special[0])
        for text in self._special[1:]:
            quoted = pc.or_(quoted, pc.match_substring(column, text))
        return pc.if_else(quoted, self._quote(column), column) if pc.any(quoted).as_py() else column

    def _quote(self, column: pa.Array) -> pa.Array:
        options = self._options
        escape = options.escape or options.quote
        if escape != options.quote:
            column = pc.replace_substring(column, escape, escape * 2)
        column = pc.replace_substring(column, options.quote, escape + options.quote)
        mark = pa.scalar(options.quote)
        return pc.binary_join_element_wise(mark, column, mark, pa.scalar(""))

    def _record(self, text: str) -> str:
        """A record of a format without columns: its values."""
        try:
            record = msgspec.json.decode(text)
        except RecursionError as error:
            raise nested_too_deeply() from error
        values = list(record.values()) if isinstance(record, dict) else [record]
        column = pa.array([None if value is None else to_text(value) for value in values], pa.string())
        return self._options.field_delimiter.join(value or "" for value in self._fields(column).to_pylist())


class JsonWriter:
    """Writes records as JSON objects."""

    def __init__(self, options: JsonOutput, outputs: tuple[OutputColumn, ...]) -> None:
        self._options = options
        self._outputs = outputs
        self._keys = [f",{quoted_json(output.label)}:" for output in outputs]

    def write(self, batch: pa.RecordBatch) -> bytes:
        """The objects of a batch."""
        empty = pa.scalar("")
        if self._outputs and self._outputs[0].kind is SqlKind.RECORD:
            text = batch.column(self._outputs[0].column).cast(pa.string())
            # A record that is not an object becomes one, with the name of an unnamed column.
            named = pc.binary_join_element_wise(pa.scalar('{"_1":'), text, pa.scalar("}"), empty)
            rows = pc.if_else(pc.starts_with(text, "{"), text, named)
            return joined([rows], self._options.record_delimiter)
        if all(
            output.present is None or batch.column(output.present).true_count == len(batch) for output in self._outputs
        ):
            return joined(self._parts(batch), self._options.record_delimiter)
        members = [self._member(batch, key, output) for key, output in zip(self._keys, self._outputs, strict=True)]
        # Each member begins with a comma; that of the first present one is removed.
        inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, empty), 1)
        return joined(["{", inner, "}"], self._options.record_delimiter)

    def finish(self) -> bytes:
        """Nothing remains."""
        return b""

    def _parts(self, batch: pa.RecordBatch) -> list[pa.Array | str]:
        parts: list[pa.Array | str] = []
        for key, output in zip(self._keys, self._outputs, strict=True):
            value = json_text(batch.column(output.column), output.kind).fill_null("null")
            parts += [key if parts else "{" + key[1:], value]
        return [*parts, "}"]

    def _member(self, batch: pa.RecordBatch, key: str, output: OutputColumn) -> pa.Array:
        value = json_text(batch.column(output.column), output.kind).fill_null("null")
        member = pc.binary_join_element_wise(pa.scalar(key), value, pa.scalar(""))
        if output.present is None:
            return member
        return pc.if_else(batch.column(output.present), member, pa.scalar(""))


class ColumnarWriter:
    """Writes records as one Parquet file, or as an Arrow IPC stream."""

    def __init__(self, outputs: tuple[OutputColumn, ...], *, as_parquet: bool) -> None:
        self._outputs = outputs
        self._as_parquet = as_parquet
        self._sink = io.BytesIO()
        self._writer: ipc.RecordBatchStreamWriter | parquet.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> bytes:
        """The bytes of the file that are complete."""
        labelled = pa.RecordBatch.from_arrays(
            [batch.column(output.column) for output in self._outputs], names=[output.label for output in self._outputs]
        )
        self._open(labelled.schema).write_batch(labelled)
        return self._drain()

    def finish(self) -> bytes:
        """The end of the file, or a whole one if there were no records."""
        if self._writer is None:
            self._open(pa.schema([(output.label, pa.string()) for output in self._outputs]))
        if self._writer is not None:
            self._writer.close()
        return self._drain()

    def _open(self, schema: pa.Schema) -> ipc.RecordBatchStreamWriter | parquet.ParquetWriter:
        if self._writer is None:
            sink = _DrainedSink(self._sink)
            self._writer = (
                parquet.ParquetWriter(pa.PythonFile(sink, mode="w"), schema)
                if self._as_parquet
                else ipc.new_stream(pa.PythonFile(sink, mode="w"), schema)
            )
        return self._writer

    def _drain(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


class _DrainedSink:
    """A sink that is emptied between writes, and keeps the total position."""

    closed = False

    def __init__(self, sink: io.BytesIO) -> None:
        self._sink = sink
        self._written = 0

    def write(self, data: bytes) -> int:
        self._sink.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the writer owns the sink."""
