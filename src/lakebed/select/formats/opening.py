"""Opens an object in whatever format it is said to be in."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..dialect.statement import SelectStatement
from ..errors import SelectCode, failure
from ..execution.relation import Relation
from ..execution.scanning import Scan
from ..model import ArrowInput, AvroInput, CsvInput, JsonInput, ParquetInput, SelectRequest
from ..sources.byte_streams import Meter
from .arrow import open_arrow
from .arrow_relation import ArrowRelation
from .avro import open_avro
from .csv_relation import CsvRelation, open_csv
from .json_relation import JsonRelation, open_json
from .parquet import open_parquet

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

R = TypeVar("R")


def open_input(
    source: ObjectBytes, request: SelectRequest, statement: SelectStatement, meter: Meter, like: Relation | None = None
) -> tuple[Relation, Scan]:
    """The records of an object. Blocks: it reads as much of it as tells what is in there. Raises SelectError.

    With `like`, the columns are those of another object, of the same format, which this one follows.
    """
    if statement.source and not isinstance(request.input, JsonInput):
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM is for JSON")
    match request.input:
        case CsvInput():
            return open_csv(
                source, request.input, request.compression, request.scan_range, meter, _as(CsvRelation, like)
            )
        case JsonInput():
            alike = _as(JsonRelation, like)
            return open_json(
                source, request.input, statement.source, request.compression, request.scan_range, meter, alike
            )
        case ParquetInput():
            return open_parquet(source, request.scan_range, meter, _as(ArrowRelation, like))
        case ArrowInput():
            return open_arrow(source, meter, _as(ArrowRelation, like))
        case AvroInput():
            return open_avro(source, meter, _as(JsonRelation, like))


def _as(kind: type[R], like: Relation | None) -> R | None:
    assert like is None or isinstance(like, kind)  # noqa: S101  # of one format there is one kind of relation
    return like
