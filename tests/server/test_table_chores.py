from __future__ import annotations

import asyncio

import pytest

from lakebed.server import table_chores
from lakebed.server.table_chores import TableChores
from lakebed.tables import dropping
from lakebed.tables.idempotency import LIFETIME_MS, RequestKey
from lakebed.tables.reports import KEPT_MS
from lakebed.tables.scanning import Scans
from tests.objects.conftest import clock, light_store
from tests.objects.stores import ROOT, ObjectStore
from tests.tables.maintenance.workshop import Workshop, open_workshop

__all__ = ["clock", "light_store"]


@pytest.fixture
async def workshop(light_store: ObjectStore) -> Workshop:
    return await open_workshop(light_store)


@pytest.fixture
def chores(workshop: Workshop) -> TableChores:
    catalog = workshop.catalog
    meta, clock = workshop.store.meta, workshop.store.clock
    return TableChores(
        dropping=catalog.dropping,
        keys=catalog.keys,
        reports=catalog.reports,
        scans=Scans(meta, catalog.files, catalog.entries, catalog.commits, clock),
        maintenance=workshop.background,
        purges=catalog.purges,
        tasks=catalog.tasks,
    )


async def test_dropped_tables_are_given_up_when_their_time_is_over(
    workshop: Workshop, chores: TableChores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropping, "_EXPIRED_A_RUN", 1)
    await workshop.catalog.keep_dropped(60)
    for one in ("a", "b"):
        await workshop.table(one)
        await workshop.catalog.drop(one)
    assert await chores.give_up_dropped() == 0
    workshop.age(60)
    assert await chores.give_up_dropped() == 2


async def test_answers_and_reports_that_are_too_old_are_forgotten(workshop: Workshop, chores: TableChores) -> None:
    table = await workshop.table()
    await workshop.catalog.create("d", key=RequestKey("k", ""))
    await workshop.catalog.reports.keep(ROOT, "lake", table, "scan-report", b"{}")
    assert await chores.forget_old() == (0, 0, 0)
    workshop.age(LIFETIME_MS / 1000 + 1)
    assert await chores.forget_old() == (1, 0, 0)
    workshop.age(KEPT_MS / 1000)
    assert await chores.forget_old() == (0, 1, 0)


async def test_maintenance_that_is_due_is_run(workshop: Workshop, chores: TableChores) -> None:
    table = await workshop.table()
    await workshop.configure(table, background_enabled=True)
    assert (await chores.maintain()).jobs == 1
    assert (await chores.maintain()).jobs == 0


async def test_purges_are_waited_for_and_done(workshop: Workshop, chores: TableChores) -> None:
    table = await workshop.table()
    await workshop.append(table)
    waiting = asyncio.create_task(chores.purge_next())
    await asyncio.sleep(0)
    await workshop.catalog.drop(purge=True)
    assert await waiting == 1
    assert await workshop.keys() == []


async def test_waiting_for_purges_ends_without_one(chores: TableChores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_chores, "_WAIT_SECONDS", 0.0)
    assert await chores.purge_next() == 0
