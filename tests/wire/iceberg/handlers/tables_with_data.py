"""Tables with data, and calls on them."""

from __future__ import annotations

from typing import Any

from tests.catalog.appends import appended
from tests.catalog.harness import name, wire_catalog
from tests.wire.iceberg.lake import Answer, Lake

TABLE = "/lake/namespaces/ns/tables/t"


async def append(lake: Lake) -> dict[str, Any]:
    """Append a file to the table `t` of `ns`, and return the table."""
    updates = await appended(wire_catalog(lake.store), name())
    answer = await lake.call("POST", TABLE, {"requirements": [], "updates": updates})
    assert answer.status == 200, answer.body
    document: dict[str, Any] = answer.document
    return document


async def table_with_data(lake: Lake) -> dict[str, Any]:
    """Create a table `t` in `ns` with one snapshot."""
    created = await lake.table()
    assert created.status == 200, created.body
    return await append(lake)


async def set_property(lake: Lake, key: str, value: str) -> dict[str, Any]:
    """Set a property of the table, and return the table."""
    update = {"action": "set-properties", "updates": {key: value}}
    document: dict[str, Any] = (await lake.call("POST", TABLE, {"requirements": [], "updates": [update]})).document
    return document


async def pointer(lake: Lake) -> dict[str, Any]:
    """The table's metadata pointer."""
    document: dict[str, Any] = (await lake.call("GET", TABLE + "/metadata-location")).document
    return document


def message(answer: Answer) -> str:
    """The message of an error."""
    text: str = answer.document["error"]["message"]
    return text
