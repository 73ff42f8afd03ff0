"""Builders of test results."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.conform.evidence import EvidenceSummary
from tests.fixtures.recorded_evidence import (
    SCHEMA,
    SCHEMA_VERSION,
    Document,
    Record,
    Status,
    selectors,
    summarize,
)


def record(test: str, status: Status = "passed", *, client: str = "lakebed", scenario: str = "all") -> Record:
    return Record(client=client, scenario=scenario, status=status, test=test)


def document(*records: Record) -> Document:
    return Document(
        schema=SCHEMA,
        schema_version=SCHEMA_VERSION,
        lakebed_version="0.1",
        source_digest="abc",
        date_utc="2026-01-31T12:00:00Z",
        client_versions={one.client: "1.2.3" for one in records if one.status == "passed" and one.client != "lakebed"},
        records=list(records),
    )


def evidence(*records: Record, named: Iterable[str] = ()) -> EvidenceSummary:
    """A summary of the records for the selectors of all claims and those in `named`."""
    return EvidenceSummary(summarize(document(*records), selectors() | set(named)))


NOTHING = EvidenceSummary(None)
