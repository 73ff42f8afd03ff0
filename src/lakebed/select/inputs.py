"""Opens an object in whatever format it is said to be in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arrow_input import open_arrow
from .avro_input import open_avro
from .csv_input import open_csv
from .failures import SelectCode, failure
from .json_input import open_json
from .model import ArrowInput, AvroInput, CsvInput, JsonInput, ParquetInput, SelectRequest
from .parquet_input import open_parquet
from .relation import Relation
from .scanning import Scan
from .statement import Statement
from .streams import Meter

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes


def open_input(
    source: ObjectBytes, request: SelectRequest, statement: Statement, meter: Meter
) -> tuple[Relation, Scan]:
    """The records of an object. Blocks: it reads as much of it as tells what is in there. Raises SelectFailure."""
    if statement.source and not isinstance(request.input, JsonInput):
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM is for JSON")
    match request.input:
        case CsvInput():
            return open_csv(source, request.input, request.compression, request.scan_range, meter)
        case JsonInput():
            return open_json(source, request.input, statement.source, request.compression, request.scan_range, meter)
        case ParquetInput():
            return open_parquet(source, request.scan_range, meter)
        case ArrowInput():
            return open_arrow(source, meter)
        case AvroInput():
            return open_avro(source, meter)
