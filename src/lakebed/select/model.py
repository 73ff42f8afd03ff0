"""Requests of S3 Select: input format, expression, output format and limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_EXPRESSION_BYTES: Final = 256 * 1024
MAX_RECORD_BYTES: Final = 1024 * 1024
"""Limit of a record, read or written, and of its fields."""


class Compression(StrEnum):
    """Compression of the whole object. Those after BZIP2 are extensions of other servers."""

    NONE = "NONE"
    GZIP = "GZIP"
    BZIP2 = "BZIP2"
    ZSTD = "ZSTD"
    LZ4 = "LZ4"
    SNAPPY = "SNAPPY"


class HeaderUse(StrEnum):
    """Use of the first record of a CSV object."""

    NONE = "NONE"
    """Data."""
    USE = "USE"
    """The names of the columns."""
    IGNORE = "IGNORE"
    """Skipped."""


class JsonKind(StrEnum):
    """The sequence of JSON values."""

    DOCUMENT = "DOCUMENT"
    """Values that may span lines."""
    LINES = "LINES"
    """One value per line."""


class QuoteFields(StrEnum):
    """When fields of CSV output are quoted."""

    ALWAYS = "ALWAYS"
    ASNEEDED = "ASNEEDED"


@dataclass(frozen=True, slots=True)
class CsvInput:
    """CSV input. An empty character means none; `request_checks` validates the options."""

    header: HeaderUse = HeaderUse.NONE
    comments: str = "#"
    quote: str = '"'
    escape: str = '"'
    """The character that makes the next one literal inside quotes; the quote itself if quotes are doubled."""
    field_delimiter: str = ","
    record_delimiter: str = "\n"
    allow_quoted_record_delimiter: bool = False


@dataclass(frozen=True, slots=True)
class JsonInput:
    """JSON input."""

    kind: JsonKind = JsonKind.LINES


@dataclass(frozen=True, slots=True)
class ParquetInput:
    """Parquet input."""


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """Arrow IPC input, a file or a stream; not in AWS's API."""


@dataclass(frozen=True, slots=True)
class AvroInput:
    """Avro input; not in AWS's API."""


@dataclass(frozen=True, slots=True)
class CsvOutput:
    """CSV output without a header."""

    quote_fields: QuoteFields = QuoteFields.ASNEEDED
    quote: str = '"'
    escape: str = '"'
    field_delimiter: str = ","
    record_delimiter: str = "\n"


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """JSON output, one object per record."""

    record_delimiter: str = "\n"


@dataclass(frozen=True, slots=True)
class ParquetOutput:
    """Parquet output, one file; not in AWS's API."""


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """Arrow IPC stream output; not in AWS's API."""


Input = CsvInput | JsonInput | ParquetInput | ArrowInput | AvroInput
Output = CsvOutput | JsonOutput | ParquetOutput | ArrowOutput


@dataclass(frozen=True, slots=True)
class ScanRange:
    """Selects the records that begin at bytes `start` to `end`, inclusive.

    `start` alone extends to the end of the object; `end` alone selects that many bytes at its end.
    """

    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class SelectRequest:
    """A select request for one object."""

    expression: str
    input: Input
    output: Output
    compression: Compression = Compression.NONE
    scan_range: ScanRange | None = None
    progress: bool = False


@dataclass(frozen=True, slots=True)
class QueryStats:
    """Progress of a query, in bytes."""

    scanned: int = 0
    """Bytes read from the object, as stored."""
    processed: int = 0
    """The same after decompression."""
    returned: int = 0
    """Bytes returned as records."""


@dataclass(frozen=True, slots=True)
class SelectLimits:
    """Limits for selects in one server process."""

    concurrent: int = 4
    """Concurrent queries; further ones are throttled."""
    memory_bytes: int = 128 * 1024 * 1024
    """Memory of one query. Sorting and grouping spill to disk beyond it, or the query fails."""
    seconds: float = 300.0
    """Time limit of a query."""
    partitions: int = 0
    """Threads of one query; 0 for one per processor."""
