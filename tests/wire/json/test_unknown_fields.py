"""Routes of our own refuse a body field that they do not know; routes of the Iceberg contract ignore it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.wire.admin.operations import BASE, admin_mount
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.json.routing import Route
from lakebed.wire.polaris.operations import polaris_routes
from tests.wire.iceberg.lake import SCHEMA, Lake, opened_lake

FIELD = "no-such-field"
OF_THE_CONTRACT = {"signS3Request"}
"""Served at a path of our own with the contract's document."""
TOLERANT = {"recoverTable"}
"""Has no options: clients of other catalogs send fields of theirs, and have the table recovered all the same."""


def own_routes() -> Iterator[tuple[str, Route[Any]]]:
    for base, routes in (
        ("/iceberg", catalog_routes().routes),
        ("", polaris_routes().routes),
        (BASE, admin_mount().routes.routes),
    ):
        for route in routes:
            if (
                not route.is_standard
                and route.method not in ("GET", "HEAD")
                and route.name not in OF_THE_CONTRACT | TOLERANT
            ):
                yield base, route


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


@pytest.mark.parametrize(("base", "route"), tuple(own_routes()), ids=lambda value: getattr(value, "name", value))
async def test_unknown_field_is_refused_by_name(lake: Lake, base: str, route: Route[Any]) -> None:
    names = {"warehouse": "lake", "namespace": "ns", "table": "t"}
    path = re.sub(r"{([^}]+)}", lambda found: names.get(found[1], "1"), base + route.path)
    answer = await lake.send(route.method, path, f'{{"{FIELD}": true}}'.encode())
    assert answer.error[0] == 400, answer.document
    assert FIELD in answer.document["error"]["message"]


async def test_contract_documents_may_have_further_fields(lake: Lake) -> None:
    document = {"name": "u", "schema": SCHEMA, FIELD: True}
    assert (await lake.call("POST", "/lake/namespaces/ns/tables", document)).status == 200
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": ["other"], FIELD: 1})).status == 200


@pytest.mark.parametrize("body", ["", "{}", f'{{"{FIELD}": true, "dryRun": false, "dry-run": false}}'])
async def test_recovery_ignores_fields_that_it_does_not_know(lake: Lake, body: str) -> None:
    answer = await lake.send("POST", "/iceberg/v1/lake/namespaces/ns/tables/t/catalog/recovery", body.encode())
    assert answer.status == 200, answer.document
    assert (answer.document["finalized_count"], answer.document["discarded_count"]) == (0, 0)
