"""The values of a select: how an object is to be read, what is asked of it, how the records are to be written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_EXPRESSION_BYTES: Final = 256 * 1024
MAX_RECORD_BYTES: Final = 1024 * 1024
"""Of a record, read or written, and of a field of one."""


class Compression(StrEnum):
    """How the object as a whole is compressed. Those after BZIP2 are what clients of other servers ask for."""

    NONE = "NONE"
    GZIP = "GZIP"
    BZIP2 = "BZIP2"
    ZSTD = "ZSTD"
    LZ4 = "LZ4"
    SNAPPY = "SNAPPY"


class HeaderUse(StrEnum):
    """What the first record of a CSV object is."""

    NONE = "NONE"
    """Data."""
    USE = "USE"
    """The names of the columns."""
    IGNORE = "IGNORE"
    """Neither: it is passed over."""


class JsonKind(StrEnum):
    """How JSON values follow each other."""

    DOCUMENT = "DOCUMENT"
    """Any values, over as many lines as they take."""
    LINES = "LINES"
    """One to a line."""


class QuoteFields(StrEnum):
    """Which fields of CSV output are quoted."""

    ALWAYS = "ALWAYS"
    ASNEEDED = "ASNEEDED"


@dataclass(frozen=True, slots=True)
class CsvInput:
    """CSV to be read. An empty character stands for there being none; the rules are in `checks.py`."""

    header: HeaderUse = HeaderUse.NONE
    comments: str = "#"
    quote: str = '"'
    escape: str = '"'
    """What, inside quotes, makes the next character be what it is; the quote itself where quotes are doubled."""
    field_delimiter: str = ","
    record_delimiter: str = "\n"
    allow_quoted_record_delimiter: bool = False


@dataclass(frozen=True, slots=True)
class JsonInput:
    """JSON to be read."""

    kind: JsonKind = JsonKind.LINES


@dataclass(frozen=True, slots=True)
class ParquetInput:
    """A Parquet file to be read."""


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """An Arrow IPC file or stream to be read. No client of AWS can ask for it."""


@dataclass(frozen=True, slots=True)
class AvroInput:
    """An Avro file to be read. No client of AWS can ask for it."""


@dataclass(frozen=True, slots=True)
class CsvOutput:
    """Records written as CSV, without a header."""

    quote_fields: QuoteFields = QuoteFields.ASNEEDED
    quote: str = '"'
    escape: str = '"'
    field_delimiter: str = ","
    record_delimiter: str = "\n"


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """Records written as JSON objects."""

    record_delimiter: str = "\n"


@dataclass(frozen=True, slots=True)
class ParquetOutput:
    """Records written as one Parquet file. No client of AWS can ask for it."""


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """Records written as an Arrow IPC stream. No client of AWS can ask for it."""


Input = CsvInput | JsonInput | ParquetInput | ArrowInput | AvroInput
Output = CsvOutput | JsonOutput | ParquetOutput | ArrowOutput


@dataclass(frozen=True, slots=True)
class ScanRange:
    """Which records: those that begin at bytes `start` to `end`, both included.

    `start` alone reaches to the end of the object; `end` alone counts that many bytes back from it.
    """

    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class SelectRequest:
    """One question about one object."""

    expression: str
    input: Input
    output: Output
    compression: Compression = Compression.NONE
    scan_range: ScanRange | None = None
    progress: bool = False


@dataclass(frozen=True, slots=True)
class QueryStats:
    """How much was done so far, in bytes."""

    scanned: int = 0
    """Read of the object, as it is stored."""
    processed: int = 0
    """The same after decompression."""
    returned: int = 0
    """Handed out as records."""


@dataclass(frozen=True, slots=True)
class SelectLimits:
    """What one server process gives to selects."""

    concurrent: int = 4
    """Queries at a time; a further one is told to slow down."""
    memory_bytes: int = 128 * 1024 * 1024
    """Of one query. What sorting and grouping hold beyond it goes to disk, or the query ends."""
    seconds: float = 300.0
    """How long a query may run."""
    partitions: int = 0
    """Threads of one query; 0 for one per processor."""
