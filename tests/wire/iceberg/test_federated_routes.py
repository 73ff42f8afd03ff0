"""Every route that names a catalog, tried on one that another is behind; and what the others pay for it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.catalog.external.federation import rows as connections
from lakebed.wire.iceberg.federated import FORWARDS
from lakebed.wire.json.routing import Route
from lakebed.wire.polaris.operations import FORWARDS as EMPTY

from .lake import Lake, allow, opened_lake
from .two_lakes import CATALOG, TwoLakes, two_lakes

NAMES = {"warehouse": CATALOG, "namespace": "ns"}
HERE = {"listTableBuckets", "enableTableBucket", "getTableBucket", "updateTableBucket"}
TABLE = "/lake/namespaces/ns/tables/t"


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path) as both:
        yield both


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        yield opened


def routes_of(lake: Lake) -> list[tuple[str, Route[Any]]]:
    """All routes that name a catalog, each with where it is mounted."""
    found: dict[tuple[str, str], tuple[str, Route[Any]]] = {}
    for edge in (lake.catalog, lake.admin):
        for mount, _ in edge.mounts:
            for route in mount.routes.routes:
                if "{warehouse}" in route.path and route.name not in HERE:
                    found.setdefault((route.method, route.path), (mount.base, route))
    return list(found.values())


async def test_no_route_answers_from_here(lakes: TwoLakes) -> None:
    """Whatever is asked for: it is passed on, or said not to be."""
    await lakes.table()
    routes = routes_of(lakes.near)
    assert len(routes) > len(FORWARDS)
    before = {table: await rows_of(lakes, table) for table in ("namespaces", "entries", "policies", "tasks")}
    for base, route in routes:
        path = re.sub(r"\{(\w+)[^}]*\}", lambda name: NAMES.get(name[1], "1"), route.path)
        for body in (b"", b"{}", b"[]"):
            lakes.wire.take()
            answer = await lakes.near.send(route.method, base + path, body if route.method != "GET" else b"")
            if route.name in FORWARDS or route.name in EMPTY:
                # Either the other side was asked, or what was sent makes no sense wherever it is sent to.
                assert lakes.wire.take() or answer.status in (400, 406), (route.name, answer)
            else:
                assert answer.status == 406, (route.name, answer)
                assert lakes.wire.take() == []
    assert {table: await rows_of(lakes, table) for table in before} == before


async def rows_of(lakes: TwoLakes, table: str) -> object:
    return await lakes.near.store.meta.rows(f"SELECT * FROM {table}")


async def test_what_this_server_takes_for_wrong_is_for_the_other_side_to_say(lakes: TwoLakes) -> None:
    """A page token is the other side's; a body may be of a later contract than this build knows."""
    await lakes.table()
    lakes.wire.take()
    await lakes.call("GET", "/namespaces/ns/tables?pageSize=1&pageToken=of-the-other-side")
    assert lakes.wire.take() == [("GET", "/lake/namespaces/ns/tables")]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_requests_to_other_catalogs_do_not_look_for_connections(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    await lake.table()
    bob = await lake.user("bob", allow("s3tables:*"))
    statements: list[str] = []
    meta = lake.store.meta
    read = meta.row

    async def counted(sql: str, *args: object) -> object:
        statements.append(sql)
        return await read(sql, *args)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(meta, "row", counted)
    answer = await lake.call(method, TABLE, keys=bob)
    assert answer.status in (200, 204)
    missing = await lake.call(method, "/lake/namespaces/ns/tables/none", keys=bob)
    assert missing.status == 404
    assert connections.FIND not in statements
    # Nor for what restricts whoever asks: both are read with the names.
    assert not [one for one in statements if "policy_attachments" in one and " FROM warehouses w " not in one]
    assert len([one for one in statements if " FROM warehouses w " in one]) == 2
