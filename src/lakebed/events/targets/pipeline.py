"""The pipeline as a target: a file that arrives starts a job that adds it to a table (auto-ingest).

Rules of buckets say of which files; the target, from where it takes any at all. A message counts as delivered when the
file is noted and its task is in the queue, in one transaction; the job adds it once, by the number of its event.
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
_AT_ONCE: Final = 8
_CREATED: Final = "s3:ObjectCreated:"
_LEAST_PARTS: Final = 3


class ArrivedFile(NamedTuple):
    """A file that arrived, and where it is to go."""

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
"""Notes a file with the task that adds it. The same again changes nothing."""


class PipelineTargetSettings(TargetSettings, frozen=True):
    """From where files are taken, what they are, and which table they are added to."""

    source: str
    """`<bucket>/<prefix>`: whoever may set the rules of another bucket adds nothing by them."""
    table: str
    """`<warehouse>.<namespace>.<table>`; made of the first file if it is not there."""
    format: str = FORMATS[0]
    """`json` is a document a line; `csv` has a line with the names of its columns."""

    def validate(self) -> None:
        """Raises InvalidInput."""
        bucket, slash, _ = self.source.partition("/")
        if not bucket or not slash:
            raise InvalidInput("source is BUCKET/PREFIX, or BUCKET/ for all of it", argument="source")
        parts = self.table.split(".")
        if len(parts) < _LEAST_PARTS or not all(parts):
            raise InvalidInput("table is WAREHOUSE.NAMESPACE.TABLE", argument="table", value=self.table[:200])
        check_one_of(self.format, "format", FORMATS)


class PipelineTarget:
    """Implements `Target`."""

    max_in_flight = _AT_ONCE

    def __init__(self, settings: PipelineTargetSettings, arrive: Arrive) -> None:
        self._settings = settings
        self._arrive = arrive

    async def send(self, message: EventMessage) -> None:
        """Note the file. Raises Undeliverable for what tells of none, or of one that is not from where it takes any."""
        if not message.name.startswith(_CREATED):
            raise Undeliverable(f"only files that were written are added to a table. event={message.name}")
        if not message.key.startswith(self._settings.source):
            raise Undeliverable(f"the target takes files from elsewhere. source={self._settings.source}")
        warehouse, *namespace, table = self._settings.table.split(".")
        told = _object_of(message)
        await self._arrive(
            ArrivedFile(
                warehouse,
                tuple(namespace),
                table,
                parse_event_id(message.id).seq,
                message.key,
                told.version_id,
                told.etag,
                told.size,
                self._settings.format,
            )
        )

    async def check(self) -> None:
        """It is there."""

    async def close(self) -> None:
        """It has nothing to let go of."""


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
            "files are told of in the form s3: name this target in rules of buckets, and give it no form"
        ) from None
    if not message.key.endswith("/" + unquote_plus(record.s3.object.key)):
        raise Undeliverable(f"the record is of another file. key={message.key[:200]}")
    return record.s3.object


def pipeline_kind(arrive: Arrive) -> TargetType[Any]:  # Any: as kinds are kept
    """Targets that start jobs of this server."""
    return TargetType(
        NAME, PipelineTargetSettings, lambda settings: PipelineTarget(settings, arrive), takes_requests=False
    )
