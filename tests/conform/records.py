"""Evidence made up for tests."""

from __future__ import annotations

from lakebed.conform.evidence import SCHEMA, SCHEMA_VERSION, Document, Evidence, Record, Status


def record(test: str, status: Status = "passed", *, client: str = "lakebed", scenario: str = "all") -> Record:
    return Record(
        client=client,
        client_version="1.2.3",
        scenario=scenario,
        status=status,
        test=test,
        date_utc="2026-01-31T12:00:00Z",
        git_sha="abc",
    )


def document(*records: Record) -> Document:
    return Document(
        schema=SCHEMA,
        schema_version=SCHEMA_VERSION,
        lakebed_version="0.1",
        git_sha="abc",
        git_is_clean=True,
        date_utc="2026-01-31T12:00:00Z",
        records=list(records),
    )


def evidence(*records: Record) -> Evidence:
    return Evidence(document(*records))


NOTHING = Evidence(None)
