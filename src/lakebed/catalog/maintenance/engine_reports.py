"""Scan and commit reports of engines, as far as they show how much maintenance would help. Pure.

Scan reports count the files that a scan opened; commit reports, the attempts of a commit. Reports come from clients:
those that do not follow the specification are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

__all__ = ["NO_SIGNALS", "EngineSignals", "read_signals"]

SCAN_REPORT: Final = "scan-report"
COMMIT_REPORT: Final = "commit-report"


class EngineSignals(NamedTuple):
    """A summary of the newest reports of a table."""

    scans: int = 0
    files_a_scan: int = 0
    """Data files per scan, on average."""
    deletes_a_scan: int = 0
    """Delete files per scan, on average."""
    retried_commits: int = 0
    """Commits with more than one attempt: failed attempts leave files behind."""


NO_SIGNALS: Final = EngineSignals()


class _Count(msgspec.Struct):
    value: int = 0


class _Metrics(msgspec.Struct, rename="kebab"):
    result_data_files: _Count | None = None
    result_delete_files: _Count | None = None
    attempts: _Count | None = None


class _Report(msgspec.Struct, rename="kebab"):
    metrics: _Metrics = msgspec.field(default_factory=_Metrics)


_decode = msgspec.json.Decoder(_Report).decode


def read_signals(reports: Iterable[tuple[str, bytes]]) -> EngineSignals:
    """Summarize reports, each a kind and a document."""
    scans = files = deletes = retried = 0
    for kind, document in reports:
        try:
            metrics = _decode(document).metrics
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if kind == SCAN_REPORT and metrics.result_data_files is not None:
            scans += 1
            files += max(0, metrics.result_data_files.value)
            deletes += max(0, metrics.result_delete_files.value) if metrics.result_delete_files else 0
        elif kind == COMMIT_REPORT and metrics.attempts is not None:
            retried += metrics.attempts.value > 1
    return EngineSignals(scans, files // scans if scans else 0, deletes // scans if scans else 0, retried)
