"""Derives the recovery status of a table and the recommended actions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from .commit_chain import CommitChain, RecoveryState


class MetadataStatus(StrEnum):
    """The status of the current metadata file."""

    VALID = "VALID"
    MISSING_OBJECT = "MISSING_OBJECT"
    INVALID_LOCATION = "INVALID_LOCATION"
    INVALID_JSON = "INVALID_JSON"


class LogStatus(StrEnum):
    """The status of the commit log."""

    RECOVERABLE = "RECOVERABLE"
    """It is complete."""
    RECOVERY_REQUIRED = "RECOVERY_REQUIRED"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class RecoveryStatus(StrEnum):
    """The status of a table."""

    HEALTHY = "HEALTHY"
    RECOVERABLE = "RECOVERABLE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"
    READ_ONLY_RECOMMENDED = "READ_ONLY_RECOMMENDED"


class RecoveryAction(StrEnum):
    """A recommended action."""

    RUN_COMMIT_RECOVERY = "RUN_COMMIT_RECOVERY"
    RETRY_COMMIT = "RETRY_COMMIT"
    RESTORE_CURRENT_METADATA_OBJECT = "RESTORE_CURRENT_METADATA_OBJECT"
    FIX_CURRENT_METADATA_JSON = "FIX_CURRENT_METADATA_JSON"
    MOVE_CURRENT_METADATA_INSIDE_TABLE = "MOVE_CURRENT_METADATA_INSIDE_TABLE"
    REVIEW_COMMIT_LOG = "REVIEW_COMMIT_LOG"


class MigrationBlocker(StrEnum):
    """A problem to fix before a catalog can be migrated."""

    COMMIT_RECOVERY_REQUIRED = "COMMIT_RECOVERY_REQUIRED"
    COMMIT_MANUAL_REVIEW_REQUIRED = "COMMIT_MANUAL_REVIEW_REQUIRED"
    WAREHOUSE_INDEX_BACKFILL_REQUIRED = "WAREHOUSE_INDEX_BACKFILL_REQUIRED"
    DUPLICATE_WAREHOUSE_PREFIX = "DUPLICATE_WAREHOUSE_PREFIX"
    DUPLICATE_TABLE_IDENTITY = "DUPLICATE_TABLE_IDENTITY"


_OF_METADATA = {
    MetadataStatus.MISSING_OBJECT: RecoveryAction.RESTORE_CURRENT_METADATA_OBJECT,
    MetadataStatus.INVALID_JSON: RecoveryAction.FIX_CURRENT_METADATA_JSON,
    MetadataStatus.INVALID_LOCATION: RecoveryAction.MOVE_CURRENT_METADATA_INSIDE_TABLE,
}


def log_status(line: CommitChain) -> LogStatus:
    """The status of the commit log."""
    if line.count(RecoveryState.MANUAL_REVIEW):
        return LogStatus.MANUAL_REVIEW_REQUIRED
    return LogStatus.RECOVERY_REQUIRED if repairs(line) else LogStatus.RECOVERABLE


def repairs(line: CommitChain) -> int:
    """The number of records that a recovery would write or remove."""
    return line.count(RecoveryState.FINALIZATION_REQUIRED) + line.count(RecoveryState.STAGED_BEFORE_TABLE_UPDATE)


def recovery_status(line: CommitChain, metadata: MetadataStatus, missing_directories: Sequence[str]) -> RecoveryStatus:
    """The status of a table."""
    if metadata is not MetadataStatus.VALID:
        return RecoveryStatus.READ_ONLY_RECOMMENDED
    if line.count(RecoveryState.MANUAL_REVIEW):
        return RecoveryStatus.MANUAL_REVIEW_REQUIRED
    return RecoveryStatus.RECOVERABLE if repairs(line) or missing_directories else RecoveryStatus.HEALTHY


def recommended_actions(
    line: CommitChain, metadata: MetadataStatus, missing_directories: Sequence[str]
) -> list[RecoveryAction]:
    """The recommended actions, the most urgent first."""
    actions = []
    if metadata in _OF_METADATA:
        actions.append(_OF_METADATA[metadata])
    if repairs(line) or missing_directories:
        actions.append(RecoveryAction.RUN_COMMIT_RECOVERY)
    if line.count(RecoveryState.STAGED_BEFORE_TABLE_UPDATE):
        actions.append(RecoveryAction.RETRY_COMMIT)
    if line.count(RecoveryState.MANUAL_REVIEW):
        actions.append(RecoveryAction.REVIEW_COMMIT_LOG)
    return actions


def log_blockers(line: CommitChain) -> list[MigrationBlocker]:
    """Problems in a table's commit log that block a migration."""
    blockers = []
    if repairs(line):
        blockers.append(MigrationBlocker.COMMIT_RECOVERY_REQUIRED)
    if line.count(RecoveryState.MANUAL_REVIEW):
        blockers.append(MigrationBlocker.COMMIT_MANUAL_REVIEW_REQUIRED)
    return blockers
