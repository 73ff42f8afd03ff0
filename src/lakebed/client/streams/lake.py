"""The client of lake tiering: tiered snapshots, and the calls of a tiering job.

A round of a job: request a table (`request_table`), prepare its offsets (`prepare`), commit to Iceberg, report the
snapshot (`commit`), and end the round (`finish`), with heartbeats meanwhile (`heartbeat`).
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
    """A lake snapshot with the tiered offsets of its table."""

    table_id: int
    snapshot_id: int
    offsets: Mapping[tuple[int | None, int], int]


@dataclass(frozen=True, slots=True)
class TieringAssignment:
    """A table assigned to a tiering job."""

    table_id: int
    database: str
    name: str
    epoch: int
    coordinator_epoch: int

    @property
    def message(self) -> bytes:
        """The fields that identify it in heartbeats."""
        return write_fields({1: self.table_id, 2: self.coordinator_epoch, 3: self.epoch})


class LakeTieringClient:
    """The lake tiering calls."""

    def __init__(self, calls: StreamCalls) -> None:
        self._calls = calls

    def latest(self, database: str, name: str, *, readable: bool = False) -> TieredSnapshot | None:
        """The last reported snapshot, or None. Error codes: TABLE_NOT_EXIST.

        With `readable`, the last that can be read without the log up to its offsets.
        """
        path = write_fields({1: database, 2: name})
        try:
            response = self._calls.call(GET_SNAPSHOT, write_fields({1: path, 3: readable or None}))
        except FlussError as failure:
            if failure.code is ErrorCode.LAKE_SNAPSHOT_NOT_EXIST:
                return None
            raise
        offsets = {
            (number(each, 1) if 1 in each else None, number(each, 2)): number(each, 3)
            for each in messages(response, 3)
            if 3 in each
        }
        return TieredSnapshot(number(response, 1), number(response, 2), offsets)

    def prepare(self, table_id: int, database: str, name: str, offsets: Mapping[tuple[int | None, int], int]) -> str:
        """Store the offsets of the next snapshot; returns their path. Error codes: UNKNOWN_TABLE_OR_BUCKET."""
        buckets = b"".join(
            write_fields({3: write_fields({1: partition_id, 2: bucket, 4: offset})})
            for (partition_id, bucket), offset in offsets.items()
        )
        head = write_fields({1: table_id, 2: write_fields({1: database, 2: name})})
        response = self._calls.call(PREPARE, write_fields({1: head + buckets}))
        for each in messages(response, 1):
            _check(each, 1, 2)
            return text(each, 4).decode()
        raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"table unknown to the server. table={database}.{name}")

    def commit(self, table_id: int, snapshot_id: int, prepared: str) -> None:
        """Report a committed snapshot, which can be read without the log. Idempotent.

        Error codes: LAKE_SNAPSHOT_NOT_EXIST.
        """
        snapshot = write_fields({1: table_id, 2: snapshot_id, 3: prepared, 4: prepared})
        for each in messages(self._calls.call(COMMIT, write_fields({2: snapshot})), 1):
            _check(each, 1, 2)

    def request_table(self) -> TieringAssignment | None:
        """Assign the longest waiting table to this job; None if none waits."""
        response = self._calls.call(HEARTBEAT, write_fields({4: True}))
        for table in messages(response, 2):
            (path,) = messages(table, 2)
            return TieringAssignment(
                number(table, 1), text(path, 1).decode(), text(path, 2).decode(), number(table, 3), number(response, 1)
            )
        return None

    def heartbeat(self, assignment: TieringAssignment) -> None:
        """Report that the job still runs. Error codes: FENCED_TIERING_EPOCH, UNKNOWN_TABLE_OR_BUCKET."""
        self._report(1, 3, assignment.message)

    def finish(self, assignment: TieringAssignment, records: int) -> None:
        """Report the end of the round. Error codes: FENCED_TIERING_EPOCH."""
        self._report(2, 4, assignment.message + write_fields({4: write_fields({2: records})}))

    def fail(self, assignment: TieringAssignment) -> None:
        """Report a failed round. Error codes: FENCED_TIERING_EPOCH."""
        self._report(3, 5, assignment.message)

    def _report(self, field: int, response_field: int, message: bytes) -> None:
        for each in messages(self._calls.call(HEARTBEAT, write_fields({field: message})), response_field):
            for failure in messages(each, 2):
                _check(failure, 1, 2)


def _check(fields: Fields, code_field: int, message_field: int) -> None:
    if code := number(fields, code_field):
        raise failure_of(code, text(fields, message_field))
