"""Validation of commits: whether a table's new state may follow the old one, and whether its new snapshots hold."""

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
