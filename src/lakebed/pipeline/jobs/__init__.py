"""Jobs, one module each."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition

MODULES: Final[Mapping[JobKind, str]] = {
    JobKind.COMPACT: "compaction",
    JobKind.REWRITE_MANIFESTS: "manifests",
    JobKind.EXPIRE_SNAPSHOTS: "expiry",
    JobKind.REMOVE_ORPHANS: "orphans",
    JobKind.COMPUTE_STATISTICS: "statistics",
    JobKind.IMPORT: "importing",
    JobKind.VERIFY: "verification",
    JobKind.REWRITE_LAYOUT: "layout",
    JobKind.EXPORT_EVENTS: "events",
    JobKind.COPY_RESTRICTED: "restricted_copies",
    JobKind.INGEST: "ingestion",
    JobKind.TIER_STREAM: "tier_stream",
}


def find_job(kind: JobKind) -> JobDefinition:
    """The job of a kind. Its module is imported here and not earlier: as a program it must not be imported yet."""
    job: JobDefinition = importlib.import_module(f"{__name__}.{MODULES[kind]}").JOB
    return job


__all__ = ["MODULES", "find_job"]
