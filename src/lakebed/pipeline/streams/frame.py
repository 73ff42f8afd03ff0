"""A DataFrame of spans of a log that are planned already: a task for each, and no process but those of the tasks.

The data source plans by itself, for which Spark starts a Python of its own, twice a read, and hands its rows on one by
one. Whoever knows the spans needs neither (ADR 38).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakebed.client.streams.access import StreamAccess

from .offsets import ReadSpan
from .records import RecordReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frame_of"]


def frame_of(spark: SparkSession, access: StreamAccess, reader: RecordReader, spans: Sequence[ReadSpan]) -> DataFrame:
    """The records of spans, of which there is at least one. It is read anew by each action."""
    from pyspark.sql.pandas.types import from_arrow_schema

    numbers = spark.range(0, len(spans), 1, len(spans))
    schema = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    return numbers.mapInArrow(partial(_read, access, reader, tuple(spans)), schema)


def _read(
    access: StreamAccess, reader: RecordReader, spans: Sequence[ReadSpan], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What one task does: those spans whose numbers it is given. The connection is open while they are read."""
    with access.connect() as client:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(client, spans[number])
