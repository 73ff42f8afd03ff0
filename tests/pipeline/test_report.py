from __future__ import annotations

import msgspec

from lakebed.client.access import ServerAccess
from lakebed.client.names import TableRef
from lakebed.core.jobs import JobKind
from lakebed.core.secrets import Secret
from lakebed.pipeline.files.table_shape import TableShape
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.table_ref import CatalogTable

TABLE = CatalogTable(TableRef("wh", ("a", "b"), "t"), ServerAccess("http://h", "k", Secret("hush")))


def draft(**options: bool) -> ReportBuilder:
    return ReportBuilder(JobKind.COMPACT, TABLE, dry_run=options.get("dry_run", False))


def test_report_round_trips() -> None:
    made = draft()
    made.read = FileTotals(3, 100) + FileTotals(rows=7)
    made.before = TableShape(snapshot=1, rows=10, deleted_rows=1)
    made.skip("data files", "well sized")
    made.find("s3://b/k", "missing", "not there")
    made.changed = True
    written = msgspec.json.encode(made.end())
    report = msgspec.json.decode(written, type=JobReport)
    assert report == msgspec.json.decode(msgspec.json.encode(report), type=JobReport)
    assert (report.table, report.read, report.is_well) == ("wh.a.b.t", FileTotals(3, 100, 7), False)
    assert b'"dry-run":false' in written
    assert b"hush" not in written


def test_dry_run_report_is_unchanged() -> None:
    made = draft(dry_run=True)
    made.changed = True
    assert not made.end().changed


def test_delete_ratio_is_a_ratio_of_rows() -> None:
    assert TableShape(rows=10, deleted_rows=1).delete_ratio == 0.1
    assert TableShape().delete_ratio == 0.0
