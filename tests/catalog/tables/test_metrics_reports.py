from __future__ import annotations

import pytest

from lakebed.catalog.tables.metrics_reports import KEPT_MS
from lakebed.core.errors import AccessDenied, NoSuchTable
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, user_with
from tests.objects.stores import ROOT

ALL = 2**62


async def test_reports_are_listed_newest_first(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.create("other")
    for number in range(5):
        await catalog.reports.keep(ROOT, "lake", name(), "scan-report", b'{"n":%d}' % number)
        catalog.store.clock.advance(1)
    await catalog.reports.keep(ROOT, "lake", name("other"), "commit-report", b"{}")
    page = await catalog.reports.list(ROOT, "lake", name(), before=ALL, limit=2)
    assert [report.document for report in page] == [b'{"n":4}', b'{"n":3}']
    assert (page[0].kind, page[0].principal) == ("scan-report", "root")
    assert page[0].received_ms - page[1].received_ms == 1000
    rest = await catalog.reports.list(ROOT, "lake", name(), before=page[-1].seq, limit=9)
    assert [report.document for report in rest] == [b'{"n":2}', b'{"n":1}', b'{"n":0}']
    [other] = await catalog.reports.list(ROOT, "lake", name("other"), before=ALL, limit=9)
    assert other.kind == "commit-report"


async def test_reports_emit_no_event(catalog: CatalogHarness) -> None:
    await catalog.create()
    before = await catalog.last_event()
    await catalog.reports.keep(ROOT, "lake", name(), "scan-report", b"{}")
    assert await catalog.last_event() == before


async def test_reports_require_an_existing_table(catalog: CatalogHarness) -> None:
    await catalog.create_view()
    async with catalog.unchanged():
        for table in ("none", "v"):
            with pytest.raises(NoSuchTable):
                await catalog.reports.keep(ROOT, "lake", name(table), "scan-report", b"{}")
            with pytest.raises(NoSuchTable):
                await catalog.reports.list(ROOT, "lake", name(table), before=ALL, limit=1)


async def test_reports_are_deleted_with_their_table(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.reports.keep(ROOT, "lake", name(), "scan-report", b"{}")
    await catalog.drop()
    assert await catalog.store.meta.rows("SELECT 1 FROM table_reports") == []


async def test_old_reports_are_deleted(catalog: CatalogHarness) -> None:
    await catalog.create()
    for number in range(3):
        await catalog.reports.keep(ROOT, "lake", name(), "scan-report", b'{"n":%d}' % number)
        catalog.store.clock.advance(1)
    catalog.store.clock.advance(KEPT_MS / 1000 - 1)
    assert await catalog.reports.delete_expired() == 2
    [kept] = await catalog.reports.list(ROOT, "lake", name(), before=ALL, limit=9)
    assert kept.document == b'{"n":2}'


async def test_reporting_requires_permission_to_read_the_table(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            user_with("s3tables:GetTable", condition={"StringEquals": {"s3tables:tableName": "u"}}),
        ):
            with pytest.raises(AccessDenied):
                await light_catalog.reports.keep(caller, "lake", name(), "scan-report", b"{}")
            with pytest.raises(AccessDenied):
                await light_catalog.reports.list(caller, "lake", name(), before=ALL, limit=1)
    reader = user_with("s3tables:GetTable")
    await light_catalog.reports.keep(reader, "lake", name(), "scan-report", b"{}")
    [report] = await light_catalog.reports.list(reader, "lake", name(), before=ALL, limit=1)
    assert report.principal == "alice"
