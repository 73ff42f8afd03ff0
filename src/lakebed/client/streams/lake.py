"""What of a stream table is in the lake: what the server knows of it, and what a job that takes it there says.

A round of a job: it is given a table with an epoch (`ask`), writes down how far the table will be (`prepare`), commits
to the lake, says so (`commit`), and that it has ended (`finish`). It says that it is alive meanwhile (`beat`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

from .connection import failure_of
from .kv_scans import StreamCalls
from .messages import Fields, messages, number, text, write_fields

__all__ = ["LakeTieringClient", "TieredSnapshot", "TieringAssignment"]

COMMIT: Final = 1030
GET_SNAPSHOT: Final = 1032
HEARTBEAT: Final = 1042
PREPARE: Final = 1052


@dataclass(frozen=True, slots=True)
class TieredSnapshot:
    """A snapshot that the server knows to hold a table up to these offsets."""

    table_id: int
    snapshot_id: int
    offsets: Mapping[tuple[int | None, int], int]


@dataclass(frozen=True, slots=True)
class TieringAssignment:
    """A table that was given to a job."""

    table_id: int
    database: str
    name: str
    epoch: int
    coordinator_epoch: int

    @property
    def message(self) -> bytes:
        """As the server is told of it."""
        return write_fields({1: self.table_id, 2: self.coordinator_epoch, 3: self.epoch})


class LakeTieringClient:
    """The calls, over a connection."""

    def __init__(self, calls: StreamCalls) -> None:
        self._calls = calls

    def latest(self, database: str, name: str, *, readable: bool = False) -> TieredSnapshot | None:
        """The snapshot that the server was last told of; None if there is none. Error codes: TABLE_NOT_EXIST.

        With `readable`, the last that is whole without the log up to its offsets.
        """
        path = write_fields({1: database, 2: name})
        try:
            answer = self._calls.call(GET_SNAPSHOT, write_fields({1: path, 3: readable or None}))
        except FlussError as failure:
            if failure.code is ErrorCode.LAKE_SNAPSHOT_NOT_EXIST:
                return None
            raise
        offsets = {
            (number(each, 1) if 1 in each else None, number(each, 2)): number(each, 3)
            for each in messages(answer, 3)
            if 3 in each
        }
        return TieredSnapshot(number(answer, 1), number(answer, 2), offsets)

    def prepare(self, table_id: int, database: str, name: str, offsets: Mapping[tuple[int | None, int], int]) -> str:
        """Have it written down how far the table will be; under which name. Error codes: UNKNOWN_TABLE_OR_BUCKET."""
        buckets = b"".join(
            write_fields({3: write_fields({1: partition_id, 2: bucket, 4: offset})})
            for (partition_id, bucket), offset in offsets.items()
        )
        head = write_fields({1: table_id, 2: write_fields({1: database, 2: name})})
        answer = self._calls.call(PREPARE, write_fields({1: head + buckets}))
        for each in messages(answer, 1):
            _check(each, 1, 2)
            return text(each, 4).decode()
        raise FlussError(
            ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"server knows nothing of the table. table={database}.{name}"
        )

    def commit(self, table_id: int, snapshot_id: int, prepared: str) -> None:
        """The snapshot is in the lake and can be read without the log. Idempotent.

        Error codes: LAKE_SNAPSHOT_NOT_EXIST.
        """
        said = write_fields({1: table_id, 2: snapshot_id, 3: prepared, 4: prepared})
        for each in messages(self._calls.call(COMMIT, write_fields({2: said})), 1):
            _check(each, 1, 2)

    def ask(self) -> TieringAssignment | None:
        """The table that has waited longest, given to this job; None if none waits."""
        answer = self._calls.call(HEARTBEAT, write_fields({4: True}))
        for given in messages(answer, 2):
            (path,) = messages(given, 2)
            return TieringAssignment(
                number(given, 1), text(path, 1).decode(), text(path, 2).decode(), number(given, 3), number(answer, 1)
            )
        return None

    def beat(self, given: TieringAssignment) -> None:
        """The job is at it. Error codes: FENCED_TIERING_EPOCH, UNKNOWN_TABLE_OR_BUCKET."""
        self._said(1, 3, given.message)

    def finish(self, given: TieringAssignment, records: int) -> None:
        """The job has ended the round. Error codes: FENCED_TIERING_EPOCH."""
        self._said(2, 4, given.message + write_fields({4: write_fields({2: records})}))

    def fail(self, given: TieringAssignment) -> None:
        """The job could not. Error codes: FENCED_TIERING_EPOCH."""
        self._said(3, 5, given.message)

    def _said(self, field: int, answered: int, message: bytes) -> None:
        for each in messages(self._calls.call(HEARTBEAT, write_fields({field: message})), answered):
            for failure in messages(each, 2):
                _check(failure, 1, 2)


def _check(fields: Fields, code_field: int, message_field: int) -> None:
    if code := number(fields, code_field):
        raise failure_of(code, text(fields, message_field))
