"""Extension routes reject unknown body fields; routes of the Iceberg specification ignore them."""

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
SPECIFIED_DOCUMENTS = {"signCatalogRequest", "signS3Request"}
"""Extension routes with documents of the specification."""
TOLERANT = {"recoverTable"}
"""Has no options, and accepts fields that clients of other catalogs send."""


def extension_routes() -> Iterator[tuple[str, Route[Any]]]:
    for base, routes in (
        ("/iceberg", catalog_routes().routes),
        ("", polaris_routes().routes),
        (BASE, admin_mount().routes.routes),
    ):
        for route in routes:
            if (
                not route.is_standard
                and route.method not in ("GET", "HEAD")
                and route.name not in SPECIFIED_DOCUMENTS | TOLERANT
            ):
                yield base, route


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


@pytest.mark.parametrize(("base", "route"), tuple(extension_routes()), ids=lambda value: getattr(value, "name", value))
async def test_unknown_field_is_rejected_by_name(lake: Lake, base: str, route: Route[Any]) -> None:
    names = {"warehouse": "lake", "namespace": "ns", "table": "t"}
    path = re.sub(r"{([^}]+)}", lambda found: names.get(found[1], "1"), base + route.path)
    response = await lake.send(route.method, path, f'{{"{FIELD}": true}}'.encode())
    assert response.error[0] == 400, response.document
    assert FIELD in response.document["error"]["message"]


async def test_documents_of_the_specification_may_have_unknown_fields(lake: Lake) -> None:
    document = {"name": "u", "schema": SCHEMA, FIELD: True}
    assert (await lake.call("POST", "/lake/namespaces/ns/tables", document)).status == 200
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": ["other"], FIELD: 1})).status == 200


@pytest.mark.parametrize("body", ["", "{}", f'{{"{FIELD}": true, "dryRun": false, "dry-run": false}}'])
async def test_recovery_ignores_unknown_fields(lake: Lake, body: str) -> None:
    response = await lake.send("POST", "/iceberg/v1/lake/namespaces/ns/tables/t/catalog/recovery", body.encode())
    assert response.status == 200, response.document
    assert (response.document["finalized_count"], response.document["discarded_count"]) == (0, 0)
