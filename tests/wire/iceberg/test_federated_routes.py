"""Every route that names a catalog selects its backend, federated or internal, before its handler runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakebed.catalog.external.federation import rows as connections
from lakebed.catalog.external.federation.connections import CatalogConnections
from lakebed.wire.iceberg.federated import FEDERATED_HANDLERS
from lakebed.wire.json.routing import Route
from lakebed.wire.polaris.operations import FEDERATED_HANDLERS as EMPTY

from .lake import Lake, allow, opened_lake, wire_lake
from .two_lakes import CATALOG, TwoLakes, two_lakes

NAMES = {"warehouse": CATALOG, "namespace": "ns"}
SERVED_LOCALLY = {"listTableBuckets", "enableTableBucket", "getTableBucket", "updateTableBucket"}
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
    """All routes that name a catalog, each with the base of its mount."""
    found: dict[tuple[str, str], tuple[str, Route[Any]]] = {}
    for application in (lake.catalog, lake.admin):
        for mount, _ in application.mounts:
            for route in mount.routes.routes:
                if "{warehouse}" in route.path and route.name not in SERVED_LOCALLY:
                    found.setdefault((route.method, route.path), (mount.base, route))
    return list(found.values())


async def test_no_route_serves_a_federated_catalog_internally(lakes: TwoLakes) -> None:
    """Each operation is forwarded, or refused as not supported."""
    await lakes.table()
    routes = routes_of(lakes.near)
    assert len(routes) > len(FEDERATED_HANDLERS)
    before = {table: await rows_of(lakes, table) for table in ("namespaces", "entries", "policies", "tasks")}
    for base, route in routes:
        path = re.sub(r"\{(\w+)[^}]*\}", lambda name: NAMES.get(name[1], "1"), route.path)
        for body in (b"", b"{}", b"[]"):
            lakes.wire.take()
            answer = await lakes.near.send(route.method, base + path, body if route.method != "GET" else b"")
            if route.name in FEDERATED_HANDLERS or route.name in EMPTY:
                # Either a request was forwarded, or the request is invalid for any catalog.
                assert lakes.wire.take() or answer.status in (400, 406), (route.name, answer)
            else:
                assert answer.status == 406, (route.name, answer)
                assert lakes.wire.take() == []
    assert {table: await rows_of(lakes, table) for table in before} == before


async def rows_of(lakes: TwoLakes, table: str) -> object:
    return await lakes.near.store.meta.rows(f"SELECT * FROM {table}")


async def test_page_tokens_are_validated_by_the_external_catalog(lakes: TwoLakes) -> None:
    await lakes.table()
    lakes.wire.take()
    await lakes.call("GET", "/namespaces/ns/tables?pageSize=1&pageToken=of-the-other-side")
    assert lakes.wire.take() == [("GET", "/lake/namespaces/ns/tables")]


async def statements_of(lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """The point reads of a load of a table that exists and of one that does not."""
    await lake.table()
    bob = await lake.user("bob", allow("s3tables:*"))
    statements: list[str] = []
    meta = lake.store.meta
    read = meta.row

    async def counted(sql: str, *args: object) -> object:
        statements.append(sql)
        return await read(sql, *args)  # type: ignore[arg-type]  # unchanged arguments

    await lake.call(method, TABLE, keys=bob)
    monkeypatch.setattr(meta, "row", counted)
    found = await lake.call(method, TABLE, keys=bob)
    assert found.status in (200, 204)
    missing = await lake.call(method, "/lake/namespaces/ns/tables/none", keys=bob)
    assert missing.status == 404
    return statements


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_server_without_federation_looks_up_no_connections(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    statements = await statements_of(lake, monkeypatch, method)
    assert not [one for one in statements if one in (connections.FIND, connections.ANY)]
    # Nor restrictions of the caller: both are read with the names.
    assert not [one for one in statements if "policy_attachments" in one and " FROM warehouses w " not in one]
    assert len([one for one in statements if " FROM warehouses w " in one]) == 2


async def test_backend_of_a_request_for_an_internal_catalog_costs_one_point_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_lake(tmp_path, hosts=("*.example",)) as lake:
        statements = await statements_of(lake, monkeypatch, "GET")
    assert statements.count(connections.FIND) == 2
    assert connections.ANY not in statements
    assert len([one for one in statements if " FROM warehouses w " in one]) == 2


async def test_catalog_connected_by_another_process_is_forwarded_at_once(tmp_path: Path) -> None:
    async with two_lakes(tmp_path, connected=False) as lakes:
        assert (await lakes.call_ok("GET", "/namespaces"))["namespaces"] == []
        assert lakes.wire.take() == []
        other_process = replace(lakes, near=wire_lake(lakes.near.store, http=lakes.wire, hosts=("*.example",)))
        assert (await other_process.connect()).status == 200
        assert (await lakes.call_ok("GET", "/namespaces"))["namespaces"] == [["ns"]]
        removed = await other_process.near.send("DELETE", f"/lakebed/v1/connections/{CATALOG}")
        assert removed.status == 204
        assert (await lakes.call_ok("GET", "/namespaces"))["namespaces"] == []


async def test_catalog_connected_after_the_backend_was_selected_is_refused(
    lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The internal handler resolves the name again, and refuses it: nothing is created here or forwarded."""

    async def none_yet(self: CatalogConnections, name: str) -> None:
        return None

    monkeypatch.setattr(CatalogConnections, "find", none_yet)
    for method, path, document in (
        ("GET", "/namespaces", None),
        ("POST", "/namespaces", {"namespace": ["more"]}),
        ("GET", "/namespaces/ns/tables/t", None),
    ):
        refused = await lakes.call(method, path, document)
        assert refused.error == (406, "UnsupportedOperationException")
    assert lakes.wire.take() == []
    assert await rows_of(lakes, "namespaces") == []


async def test_server_without_allowed_hosts_still_recognizes_a_federated_catalog(lakes: TwoLakes) -> None:
    """The hosts were removed from its settings: it neither forwards nor serves the catalog as an empty one."""
    lakes.wire.take()
    near = wire_lake(lakes.near.store, http=lakes.wire, hosts=())
    refused = await near.call("GET", f"/{CATALOG}/namespaces")
    assert refused.error == (502, "BadGatewayException")
    assert lakes.wire.take() == []
