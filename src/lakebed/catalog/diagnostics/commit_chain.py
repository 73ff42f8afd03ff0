"""Checks the chain of a table's commit records, from the current pointer backwards. Pure.

Each record has the state before and after a pointer move, and the number of the move. So the records of a healthy table
form a chain without gaps, from the pointer back to the first commit, or to where the log was truncated. A single
missing record follows from its neighbours; two in a row do not, because the version tokens between them are unknown.
Records above the pointer belong to commits that the table does not have, and block the next commit, which gets their
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..commits.commit_log import CommitRecord


class RecordStatus(StrEnum):
    """The status of a record relative to the pointer."""

    COMMITTED = "COMMITTED"
    """At or below it."""
    STAGED = "STAGED"
    """Above it: the pointer has not made the move."""
    MISSING = "MISSING"
    """The pointer made the move, and the record is missing."""


class RecoveryState(StrEnum):
    """The required recovery of a record."""

    COMMITTED = "COMMITTED"
    """None: it is part of the chain."""
    FINALIZATION_REQUIRED = "FINALIZATION_REQUIRED"
    """It is missing and can be written, because its neighbours determine it."""
    STAGED_BEFORE_TABLE_UPDATE = "STAGED_BEFORE_TABLE_UPDATE"
    """It can be removed: it follows the pointer's state, and the pointer did not move."""
    MANUAL_REVIEW = "MANUAL_REVIEW"
    """The stored state does not determine it."""


class IndexStatus(StrEnum):
    """Whether a commit with a client's commit id is found by it."""

    NOT_REQUIRED = "NOT_REQUIRED"
    MATCHES = "MATCHES"
    CONFLICTING = "CONFLICTING"


class ChainStatus(StrEnum):
    """How far the chain reaches."""

    COMPLETE = "COMPLETE"
    """To the first commit."""
    CUT = "CUT"
    """To the start of the log, or of the part that was read."""
    BROKEN = "BROKEN"
    """It ends above existing records."""


class TableVersion(NamedTuple):
    """A version of a table."""

    metadata_at: str
    version_token: str


@dataclass(frozen=True, slots=True)
class CommitFinding:
    """The check of one pointer move. The names are those of the report."""

    generation: int
    commit_id: str | None
    idempotency_key: str | None
    operation: str
    writer: str
    status: RecordStatus
    recovery_state: RecoveryState
    previous_metadata_location: str | None
    new_metadata_location: str
    expected_version_token: str | None
    new_version_token: str
    idempotency_index_present: bool
    idempotency_index_status: IndexStatus
    committed_at_ms: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class CommitChain:
    """The result of the check; findings from the newest to the oldest."""

    status: ChainStatus
    findings: tuple[CommitFinding, ...]

    def count(self, state: RecoveryState) -> int:
        """The number of moves in a state."""
        return sum(finding.recovery_state is state for finding in self.findings)

    @property
    def conflicting_ids(self) -> int:
        """The number of commits that are not found by their commit id."""
        return sum(finding.idempotency_index_status is IndexStatus.CONFLICTING for finding in self.findings)


def check_chain(current: TableVersion, generation: int, records: Sequence[CommitRecord]) -> CommitChain:
    """Check the records of a table whose pointer is at `current` after `generation` moves.

    The records may be only the newest part of the log.
    """
    return _ChainCheck(current, generation, records).run()


class _ChainCheck:
    def __init__(self, current: TableVersion, generation: int, records: Sequence[CommitRecord]) -> None:
        self._current = current
        self._generation = generation
        self._records: Mapping[int, CommitRecord] = {record.generation: record for record in records}
        self._ids: dict[str, int] = {}
        for record in records:
            self._ids[record.commit_id] = self._ids.get(record.commit_id, 0) + 1
        self._findings: dict[int, CommitFinding] = {}

    def run(self) -> CommitChain:
        status = self._descend()
        self._ascend()
        ordered = sorted(self._findings.values(), key=lambda finding: -finding.generation)
        return CommitChain(status, tuple(ordered))

    # -- below the pointer ----------------------------------------------------------------------------------------

    def _descend(self) -> ChainStatus:
        numbers = sorted(number for number in self._records if number <= self._generation)
        oldest = numbers[0] if numbers else self._generation + 1
        state: TableVersion | None = self._current
        status = ChainStatus.COMPLETE
        for number in range(self._generation, 0, -1):
            if number < oldest and number != self._generation:
                return ChainStatus.CUT if status is ChainStatus.COMPLETE else status
            record = self._records.get(number)
            if status is ChainStatus.BROKEN:
                if record is not None:
                    self._add(record, RecoveryState.MANUAL_REVIEW, "the chain of commits does not reach this record")
                continue
            if state is None:
                # According to the record above, the table was created by it.
                status = ChainStatus.BROKEN
                if record is not None:
                    self._add(
                        record,
                        RecoveryState.MANUAL_REVIEW,
                        "according to a later record, the table was created by that one",
                    )
            elif record is None:
                below = self._records.get(number - 1)
                if below is None and number > 1:
                    status = ChainStatus.BROKEN
                    self._miss(number, state, None, RecoveryState.MANUAL_REVIEW)
                else:
                    before = None if below is None else TableVersion(below.metadata_at, below.version_token)
                    self._miss(number, state, before, RecoveryState.FINALIZATION_REQUIRED)
                    state = before
            elif TableVersion(record.metadata_at, record.version_token) != state:
                status = ChainStatus.BROKEN
                self._add(
                    record,
                    RecoveryState.MANUAL_REVIEW,
                    "the record leads to a different state than the next one starts from",
                )
            else:
                self._add(record, RecoveryState.COMMITTED, "")
                state = _before(record)
        return status

    # -- above it -------------------------------------------------------------------------------------------------

    def _ascend(self) -> None:
        state: TableVersion | None = self._current
        for number in sorted(number for number in self._records if number > self._generation):
            record = self._records[number]
            if state is not None and _before(record) == state:
                self._add(
                    record,
                    RecoveryState.STAGED_BEFORE_TABLE_UPDATE,
                    "the table does not have this commit, and its record blocks the next one",
                )
                state = TableVersion(record.metadata_at, record.version_token)
            else:
                state = None
                self._add(record, RecoveryState.MANUAL_REVIEW, "the record does not start from the table's state")

    def _add(self, record: CommitRecord, state: RecoveryState, reason: str) -> None:
        key = record.client_id
        index = IndexStatus.NOT_REQUIRED
        if key is not None:
            index = IndexStatus.MATCHES if self._ids[key] == 1 else IndexStatus.CONFLICTING
        if index is IndexStatus.CONFLICTING:
            state, reason = RecoveryState.MANUAL_REVIEW, "another record has the same commit id"
        self._findings[record.generation] = CommitFinding(
            generation=record.generation,
            commit_id=record.commit_id,
            idempotency_key=key,
            operation=record.operation,
            writer=record.writer,
            status=RecordStatus.STAGED if record.generation > self._generation else RecordStatus.COMMITTED,
            recovery_state=state,
            previous_metadata_location=record.previous_at,
            new_metadata_location=record.metadata_at,
            expected_version_token=record.expected_token,
            new_version_token=record.version_token,
            idempotency_index_present=index is IndexStatus.MATCHES,
            idempotency_index_status=index,
            committed_at_ms=record.committed_ms,
            reason=reason,
        )

    def _miss(self, number: int, state: TableVersion, before: TableVersion | None, recovery: RecoveryState) -> None:
        can_write = recovery is RecoveryState.FINALIZATION_REQUIRED
        self._findings[number] = CommitFinding(
            generation=number,
            commit_id=None,
            idempotency_key=None,
            operation="",
            writer="",
            status=RecordStatus.MISSING,
            recovery_state=recovery,
            previous_metadata_location=None if before is None else before.metadata_at,
            new_metadata_location=state.metadata_at,
            expected_version_token=None if before is None else before.version_token,
            new_version_token=state.version_token,
            idempotency_index_present=False,
            idempotency_index_status=IndexStatus.NOT_REQUIRED,
            committed_at_ms=None,
            reason="the record is missing; its neighbours determine it"
            if can_write
            else "the record is missing, and so is the one before it",
        )


def _before(record: CommitRecord) -> TableVersion | None:
    if record.previous_at is None or record.expected_token is None:
        return None
    return TableVersion(record.previous_at, record.expected_token)
