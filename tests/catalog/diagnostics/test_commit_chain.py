from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.commits.commit_log import CommitRecord
from lakebed.catalog.diagnostics.commit_chain import (
    ChainStatus,
    CommitChain,
    IndexStatus,
    RecordStatus,
    RecoveryState,
    TableVersion,
    check_chain,
)
from lakebed.catalog.diagnostics.recovery_status import (
    LogStatus,
    MetadataStatus,
    MigrationBlocker,
    RecoveryAction,
    RecoveryStatus,
    log_blockers,
    log_status,
    recommended_actions,
    recovery_status,
    repairs,
)


def state(number: int) -> TableVersion:
    return TableVersion(f"s3://lake/t/metadata/{number:05d}.metadata.json", f"token-{number}")


def record(number: int, commit_id: str = "") -> CommitRecord:
    """The move from state `number - 1` to state `number`."""
    new, old = state(number), state(number - 1) if number > 1 else None
    return CommitRecord(
        entry="e",
        generation=number,
        commit_id=commit_id or new.version_token,
        operation="append",
        writer="w",
        previous_at=None if old is None else old.metadata_at,
        metadata_at=new.metadata_at,
        expected_token=None if old is None else old.version_token,
        version_token=new.version_token,
        request_digest="",
        requirements=b"[]",
        committed_ms=number,
    )


def log(length: int) -> list[CommitRecord]:
    return [record(number) for number in range(length, 0, -1)]


def states(line: CommitChain) -> dict[int, RecoveryState]:
    return {finding.generation: finding.recovery_state for finding in line.findings}


def checked(records: Sequence[CommitRecord], at: int) -> CommitChain:
    return check_chain(state(at), at, records)


lengths = st.integers(1, 30)


@given(lengths)
def test_healthy_log_is_a_chain_to_the_first_commit(length: int) -> None:
    line = checked(log(length), length)
    assert line.status is ChainStatus.COMPLETE
    assert states(line) == dict.fromkeys(range(1, length + 1), RecoveryState.COMMITTED)
    assert log_status(line) is LogStatus.RECOVERABLE
    assert recovery_status(line, MetadataStatus.VALID, []) is RecoveryStatus.HEALTHY
    assert recommended_actions(line, MetadataStatus.VALID, []) == []
    assert log_blockers(line) == []


@given(lengths, st.data())
def test_newest_part_of_a_log_is_a_chain_to_its_start(length: int, data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, length))
    line = checked(log(length)[:kept], length)
    assert line.status is (ChainStatus.COMPLETE if kept == length else ChainStatus.CUT)
    assert set(states(line).values()) == {RecoveryState.COMMITTED}
    assert len(line.findings) == kept


@given(st.integers(2, 30), st.data())
def test_single_missing_record_can_be_written(length: int, data: st.DataObject) -> None:
    gone = data.draw(st.integers(2, length))
    line = checked([one for one in log(length) if one.generation != gone], length)
    assert line.status is ChainStatus.COMPLETE
    (found,) = [finding for finding in line.findings if finding.recovery_state is not RecoveryState.COMMITTED]
    wanted = record(gone)
    assert found.recovery_state is RecoveryState.FINALIZATION_REQUIRED
    assert found.status is RecordStatus.MISSING
    assert (found.generation, found.new_metadata_location, found.new_version_token) == (
        gone,
        wanted.metadata_at,
        wanted.version_token,
    )
    assert (found.previous_metadata_location, found.expected_version_token) == (
        wanted.previous_at,
        wanted.expected_token,
    )
    assert recovery_status(line, MetadataStatus.VALID, []) is RecoveryStatus.RECOVERABLE
    assert recommended_actions(line, MetadataStatus.VALID, []) == [RecoveryAction.RUN_COMMIT_RECOVERY]
    assert log_blockers(line) == [MigrationBlocker.COMMIT_RECOVERY_REQUIRED]


@given(st.integers(1, 20), st.integers(1, 10))
def test_records_above_the_pointer_can_be_removed(at: int, ahead: int) -> None:
    line = checked(log(at + ahead), at)
    assert line.status is ChainStatus.COMPLETE
    above = {finding.generation: finding for finding in line.findings if finding.generation > at}
    assert {finding.recovery_state for finding in above.values()} == {RecoveryState.STAGED_BEFORE_TABLE_UPDATE}
    assert {finding.status for finding in above.values()} == {RecordStatus.STAGED}
    assert repairs(line) == ahead
    assert recommended_actions(line, MetadataStatus.VALID, []) == [
        RecoveryAction.RUN_COMMIT_RECOVERY,
        RecoveryAction.RETRY_COMMIT,
    ]


@given(st.integers(4, 30), st.data())
def test_two_missing_records_in_a_row_break_the_chain(length: int, data: st.DataObject) -> None:
    upper = data.draw(st.integers(3, length))
    line = checked([one for one in log(length) if one.generation not in (upper, upper - 1)], length)
    assert line.status is ChainStatus.BROKEN
    assert log_status(line) is LogStatus.MANUAL_REVIEW_REQUIRED
    assert recovery_status(line, MetadataStatus.VALID, []) is RecoveryStatus.MANUAL_REVIEW_REQUIRED
    found = states(line)
    assert found[upper] is RecoveryState.MANUAL_REVIEW
    assert all(found[number] is RecoveryState.COMMITTED for number in range(upper + 1, length + 1))
    assert all(found[number] is RecoveryState.MANUAL_REVIEW for number in range(1, upper - 1))


def test_record_of_another_chain_breaks_it() -> None:
    foreign = record(2)._replace(metadata_at="s3://lake/t/metadata/other.metadata.json")
    line = checked([record(3), foreign, record(1)], 3)
    assert line.status is ChainStatus.BROKEN
    assert states(line) == {
        3: RecoveryState.COMMITTED,
        2: RecoveryState.MANUAL_REVIEW,
        1: RecoveryState.MANUAL_REVIEW,
    }
    assert recommended_actions(line, MetadataStatus.VALID, []) == [RecoveryAction.REVIEW_COMMIT_LOG]
    assert log_blockers(line) == [MigrationBlocker.COMMIT_MANUAL_REVIEW_REQUIRED]


def test_unrelated_record_above_the_pointer_requires_manual_review() -> None:
    line = checked([record(5), record(3), record(2), record(1)], 3)
    assert states(line)[5] is RecoveryState.MANUAL_REVIEW


def test_empty_log_of_a_new_table_can_be_repaired() -> None:
    line = checked([], 1)
    assert states(line) == {1: RecoveryState.FINALIZATION_REQUIRED}
    assert line.findings[0].previous_metadata_location is None


def test_empty_log_of_an_old_table_cannot_be_repaired() -> None:
    line = checked([], 7)
    assert line.status is ChainStatus.BROKEN
    assert states(line) == {7: RecoveryState.MANUAL_REVIEW}


def test_record_of_a_first_commit_ends_the_chain() -> None:
    first = record(2)._replace(previous_at=None, expected_token=None)
    line = checked([record(3), first, record(1)], 3)
    assert line.status is ChainStatus.BROKEN
    assert states(line)[1] is RecoveryState.MANUAL_REVIEW


def test_commits_are_found_by_commit_id() -> None:
    line = checked([record(2, "mine"), record(1)], 2)
    given_id, none_given = line.findings
    assert (given_id.idempotency_key, given_id.idempotency_index_status) == ("mine", IndexStatus.MATCHES)
    assert given_id.idempotency_index_present
    assert (none_given.idempotency_key, none_given.idempotency_index_status) == (None, IndexStatus.NOT_REQUIRED)
    twice = checked([record(2, "mine"), record(1, "mine")], 2)
    assert twice.conflicting_ids == 2
    assert set(states(twice).values()) == {RecoveryState.MANUAL_REVIEW}


def test_unreadable_metadata_is_the_most_severe_status() -> None:
    line = checked(log(2), 2)
    for metadata, action in (
        (MetadataStatus.MISSING_OBJECT, RecoveryAction.RESTORE_CURRENT_METADATA_OBJECT),
        (MetadataStatus.INVALID_JSON, RecoveryAction.FIX_CURRENT_METADATA_JSON),
        (MetadataStatus.INVALID_LOCATION, RecoveryAction.MOVE_CURRENT_METADATA_INSIDE_TABLE),
    ):
        assert recovery_status(line, metadata, []) is RecoveryStatus.READ_ONLY_RECOMMENDED
        assert recommended_actions(line, metadata, []) == [action]


def test_unrecorded_directory_can_be_repaired() -> None:
    line = checked(log(2), 2)
    assert recovery_status(line, MetadataStatus.VALID, ["t/"]) is RecoveryStatus.RECOVERABLE
    assert recommended_actions(line, MetadataStatus.VALID, ["t/"]) == [RecoveryAction.RUN_COMMIT_RECOVERY]
