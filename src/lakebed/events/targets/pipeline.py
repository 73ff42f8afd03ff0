"""The `pipeline` target: auto-ingest of uploaded files into a table.

Bucket rules select the files; the target restricts them to its `source`. A message is delivered once the file is
registered and its task is queued, in one transaction. The job adds each file once, by the sequence number of its event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from lakebed.core.errors import InvalidInput, Undeliverable

from ..ids import parse_event_id
from .addresses import check_one_of
from .seam import EventMessage, TargetSettings, TargetType

NAME: Final = "pipeline"
FORMATS: Final = ("parquet", "csv", "json")
_MAX_IN_FLIGHT: Final = 8
_CREATED: Final = "s3:ObjectCreated:"
_MIN_NAME_PARTS: Final = 3


class ArrivedFile(NamedTuple):
    """An uploaded file, and its destination table."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    event: int
    source: str
    version: str
    etag: str
    bytes: int
    format: str


Arrive = Callable[[ArrivedFile], Awaitable[None]]
"""Registers a file and queues its task. Idempotent."""


class PipelineTargetSettings(TargetSettings, frozen=True):
    """The source and format of the files, and the destination table."""

    source: str
    """`<bucket>/<prefix>`. Rules of other buckets cannot add files to the table."""
    table: str
    """`<catalog>.<namespace>.<table>`; created from the first file if it does not exist."""
    format: str = FORMATS[0]
    """`json` has one document per line; `csv` has a header line."""

    def validate(self) -> None:
        """Raises InvalidInput."""
        bucket, slash, _ = self.source.partition("/")
        if not bucket or not slash:
            raise InvalidInput("source must be BUCKET/PREFIX, or BUCKET/ for the whole bucket", argument="source")
        parts = self.table.split(".")
        if len(parts) < _MIN_NAME_PARTS or not all(parts):
            raise InvalidInput("table must be CATALOG.NAMESPACE.TABLE", argument="table", value=self.table[:200])
        check_one_of(self.format, "format", FORMATS)


class PipelineTarget:
    """Implements `EventTarget`."""

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, settings: PipelineTargetSettings, arrive: Arrive) -> None:
        self._settings = settings
        self._arrive = arrive

    async def send(self, message: EventMessage) -> None:
        """Register the file. Raises Undeliverable for other events, and for files outside the source."""
        if not message.name.startswith(_CREATED):
            raise Undeliverable(f"not an upload. event={message.name}")
        if not message.key.startswith(self._settings.source):
            raise Undeliverable(f"file is outside the target's source. source={self._settings.source}")
        catalog, *namespace, table = self._settings.table.split(".")
        file = _object_of(message)
        await self._arrive(
            ArrivedFile(
                catalog,
                tuple(namespace),
                table,
                parse_event_id(message.id).seq,
                message.key,
                file.version_id,
                file.etag,
                file.size,
                self._settings.format,
            )
        )

    async def check(self) -> None:
        """Always available: the queue is in the metadata store."""

    async def close(self) -> None:
        """Nothing to close."""


class _Object(msgspec.Struct):
    key: str
    size: int = 0
    etag: str = msgspec.field(name="eTag", default="")
    version_id: str = msgspec.field(name="versionId", default="")


class _S3(msgspec.Struct):
    object: _Object


class _Record(msgspec.Struct):
    s3: _S3


class _Body(msgspec.Struct):
    records: list[_Record] = msgspec.field(name="Records")


def _object_of(message: EventMessage) -> _Object:
    try:
        (record,) = msgspec.json.decode(message.body, type=_Body).records
    except (msgspec.DecodeError, ValueError):
        raise Undeliverable(
            "the message is not in the form s3: use the target only in bucket rules, and without a form"
        ) from None
    if not message.key.endswith("/" + unquote_plus(record.s3.object.key)):
        raise Undeliverable(f"the record names another file. key={message.key[:200]}")
    return record.s3.object


def pipeline_type(arrive: Arrive) -> TargetType[Any]:  # Any: as in `TargetTypes`
    """The target type `pipeline`."""
    return TargetType(
        NAME, PipelineTargetSettings, lambda settings: PipelineTarget(settings, arrive), takes_requests=False
    )
