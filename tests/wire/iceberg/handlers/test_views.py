from __future__ import annotations

from typing import Any

from tests.catalog.harness import VIEW_VERSION
from tests.wire.iceberg.lake import SCHEMA, Lake


def view_body(*dialects: str) -> dict[str, Any]:
    representations = [{"type": "sql", "sql": "SELECT 1", "dialect": dialect} for dialect in dialects]
    version = VIEW_VERSION | {"representations": representations}
    return {"name": "v", "schema": SCHEMA, "properties": {}, "view-version": version}


async def test_invalid_view_version_is_an_illegal_argument(lake: Lake) -> None:
    views = "/lake/namespaces/ns/views"
    refused = await lake.call("POST", views, view_body("trino", "trino"))
    assert refused.error == (400, "IllegalArgumentException")
    assert refused.document["error"]["message"] == "Invalid view version: Cannot add multiple queries for dialect trino"
    assert (await lake.call("POST", views, view_body("spark", "trino"))).status == 200
    change = {
        "requirements": [],
        "updates": [
            {"action": "add-view-version", "view-version": view_body("spark")["view-version"]},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    }
    assert (await lake.call("POST", f"{views}/v", change)).error == (400, "IllegalArgumentException")
    # An incomplete document is a bad request.
    assert (await lake.call("POST", views, {"name": "w"})).error == (400, "BadRequestException")
