"""What follows from what was found: how a table is, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from .commit_chain import CommitChain, RecoveryState


class MetadataStatus(StrEnum):
    """What became of the file that the pointer names."""

    VALID = "VALID"
    MISSING_OBJECT = "MISSING_OBJECT"
    INVALID_LOCATION = "INVALID_LOCATION"
    INVALID_JSON = "INVALID_JSON"


class LogStatus(StrEnum):
    """What the log of commits is good for."""

    RECOVERABLE = "RECOVERABLE"
    """It tells the whole of what it should."""
    RECOVERY_REQUIRED = "RECOVERY_REQUIRED"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class RecoveryStatus(StrEnum):
    """How a table is."""

    HEALTHY = "HEALTHY"
    RECOVERABLE = "RECOVERABLE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"
    READ_ONLY_RECOMMENDED = "READ_ONLY_RECOMMENDED"


class RecoveryAction(StrEnum):
    """What somebody should do."""

    RUN_COMMIT_RECOVERY = "RUN_COMMIT_RECOVERY"
    RETRY_COMMIT = "RETRY_COMMIT"
    RESTORE_CURRENT_METADATA_OBJECT = "RESTORE_CURRENT_METADATA_OBJECT"
    FIX_CURRENT_METADATA_JSON = "FIX_CURRENT_METADATA_JSON"
    MOVE_CURRENT_METADATA_INSIDE_TABLE = "MOVE_CURRENT_METADATA_INSIDE_TABLE"
    REVIEW_COMMIT_LOG = "REVIEW_COMMIT_LOG"


class MigrationBlocker(StrEnum):
    """What would have to be put right before a catalog could be moved elsewhere."""

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
    """What the log of commits is good for."""
    if line.count(RecoveryState.MANUAL_REVIEW):
        return LogStatus.MANUAL_REVIEW_REQUIRED
    return LogStatus.RECOVERY_REQUIRED if repairs(line) else LogStatus.RECOVERABLE


def repairs(line: CommitChain) -> int:
    """How many records a recovery would write or take out."""
    return line.count(RecoveryState.FINALIZATION_REQUIRED) + line.count(RecoveryState.STAGED_BEFORE_TABLE_UPDATE)


def recovery_status(line: CommitChain, metadata: MetadataStatus, missing_directories: Sequence[str]) -> RecoveryStatus:
    """How a table is."""
    if metadata is not MetadataStatus.VALID:
        return RecoveryStatus.READ_ONLY_RECOMMENDED
    if line.count(RecoveryState.MANUAL_REVIEW):
        return RecoveryStatus.MANUAL_REVIEW_REQUIRED
    return RecoveryStatus.RECOVERABLE if repairs(line) or missing_directories else RecoveryStatus.HEALTHY


def recommended_actions(
    line: CommitChain, metadata: MetadataStatus, missing_directories: Sequence[str]
) -> list[RecoveryAction]:
    """What somebody should do, the most urgent first."""
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
    """What in the log of a table stands in the way of moving it."""
    blockers = []
    if repairs(line):
        blockers.append(MigrationBlocker.COMMIT_RECOVERY_REQUIRED)
    if line.count(RecoveryState.MANUAL_REVIEW):
        blockers.append(MigrationBlocker.COMMIT_MANUAL_REVIEW_REQUIRED)
    return blockers
