from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.engine_reports import NO_SIGNALS, EngineSignals, read_signals


def report(**metrics: int) -> bytes:
    document: dict[str, Any] = {
        "report-type": "scan-report",
        "table-name": "t",
        "metrics": {key.replace("_", "-"): {"unit": "count", "value": one} for key, one in metrics.items()},
    }
    return json.dumps(document).encode()


def test_reports_are_summarized_to_signals() -> None:
    reports = [
        ("scan-report", report(result_data_files=400, result_delete_files=10)),
        ("scan-report", report(result_data_files=200)),
        ("commit-report", report(attempts=1)),
        ("commit-report", report(attempts=3)),
    ]
    assert read_signals(reports) == EngineSignals(scans=2, files_a_scan=300, deletes_a_scan=5, retried_commits=1)
    assert read_signals([]) == NO_SIGNALS


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b"[]", b"{}", b'{"metrics": 3}', b'{"metrics": {"result-data-files": {"value": "x"}}}', b"\xff"],
)
def test_invalid_reports_are_ignored(document: bytes) -> None:
    assert read_signals([("scan-report", document), ("commit-report", document)]) == NO_SIGNALS


@given(st.lists(st.tuples(st.sampled_from(["scan-report", "commit-report", "x"]), st.binary(max_size=40)), max_size=5))
def test_noise_is_ignored(reports: list[tuple[str, bytes]]) -> None:
    assert read_signals(reports) == NO_SIGNALS
