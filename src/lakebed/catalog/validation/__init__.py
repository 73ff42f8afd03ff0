"""Validates commits: the transition of the table metadata, and the new snapshots."""

from .commit import CommitValidator
from .model import DEFAULT_COMMIT_LIMITS, CommitLimits, CommitReport, SnapshotChanges, ValidationLevel
from .transition import check_transition

__all__ = [
    "DEFAULT_COMMIT_LIMITS",
    "CommitLimits",
    "CommitReport",
    "CommitValidator",
    "SnapshotChanges",
    "ValidationLevel",
    "check_transition",
]
