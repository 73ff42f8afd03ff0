from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions.parser import parse

from lakebed.catalog.scans import parse_request
from lakebed.core.errors import InvalidInput


def test_empty_request_scans_the_current_snapshot() -> None:
    request = parse_request({})
    assert request.snapshot_id is None
    assert request.filter is None
    assert request.case_sensitive
    assert not request.use_snapshot_schema
    assert not request.is_incremental


def test_every_field_is_parsed() -> None:
    request = parse_request(
        {
            "snapshot-id": 5,
            "select": ["a", "_file"],
            "filter": {"type": "eq", "term": "a", "value": 1},
            "case-sensitive": False,
            "use-snapshot-schema": True,
            "stats-fields": ["a", None],
            "min-rows-requested": 10,
        }
    )
    assert (request.snapshot_id, request.min_rows_requested) == (5, 10)
    assert request.stats_fields == ("a", None)
    assert not request.case_sensitive
    assert request.use_snapshot_schema


def test_null_fields_are_unset() -> None:
    request = parse_request({"snapshot-id": None, "case-sensitive": None, "start-snapshot-id": 1, "end-snapshot-id": 2})
    assert request.is_incremental
    assert request.case_sensitive


def test_requests_of_pyiceberg_are_parsed() -> None:
    sent = PlanTableScanRequest(filter=parse("a = 1"), select=["a"]).model_dump_json(by_alias=True, exclude_none=True)
    request = parse_request(msgspec.json.decode(sent))
    assert request.filter == {"type": "eq", "term": "a", "value": 1}


@pytest.mark.parametrize(
    "document",
    [
        [], None, "x",
        {"snapshot-id": "5"}, {"snapshot-id": 2**63}, {"snapshot-id": 1.5}, {"select": "a"}, {"select": [1]},
        {"filter": "a = 1"}, {"filter": []}, {"case-sensitive": "true"}, {"min-rows-requested": -1},
        {"stats-fields": [1]}, {"unknown": 1},
        {"start-snapshot-id": 1}, {"end-snapshot-id": 1}, {"snapshot-id": 1, "end-snapshot-id": 1},
        {"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 1},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_requests_are_rejected(document: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_request(document)
