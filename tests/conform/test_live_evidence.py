from __future__ import annotations

import pytest

from lakebed.conform.live_evidence import FIELDS, SCHEMA, evidence_document, evidence_schema, problems

GOOD: dict[str, object] = {
    **dict.fromkeys(FIELDS, "given"),
    "schema": SCHEMA,
    "schema_version": 1,
    "client_name": "pyiceberg",
    "expected_status": "pass",
    "observed_status": "pass",
    "row_count": 2,
    "claim": "catalog-smoke",
}


def test_complete_record_is_evidence() -> None:
    assert problems(GOOD) == []
    assert evidence_document(GOOD) == {
        "live_conformance_evidence": GOOD,
        "validation": {"is_valid": True, "problems": []},
    }


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_required(field: str) -> None:
    assert problems({name: value for name, value in GOOD.items() if name != field}) == [f"{field} is missing"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"lakebed_build": ""}, "lakebed_build is not recorded"),
        ({"git_sha": "unknown"}, "git_sha is not recorded"),
        ({"catalog_backing": " "}, "catalog_backing is not recorded"),
        ({"client_version": "unrecorded"}, "client_version is not recorded"),
        ({"observed_status": "fail"}, "observed_status is fail"),
        ({"claim": "sql-read"}, "pyiceberg does not show sql-read"),
        ({"client_name": "other"}, "other does not show catalog-smoke"),
        ({"row_count": 1}, "row_count is 2. found=1"),
        ({"schema_version": 2}, f"schema is {SCHEMA} version 1"),
    ],
)
def test_invalid_record_lists_its_problems(change: dict[str, object], problem: str) -> None:
    assert problems({**GOOD, **change}) == [problem]


def test_record_that_expects_failure_is_not_evidence() -> None:
    assert problems({**GOOD, "expected_status": "fail", "observed_status": "fail"}) == ["expected_status is pass"]


def test_row_count_is_not_checked_for_clients_that_read_a_stage() -> None:
    assert problems({**GOOD, "client_name": "databend", "claim": "stage-read", "row_count": 0}) == []


def test_schema_describes_every_field() -> None:
    assert evidence_schema()["fields"].keys() == FIELDS.keys()
