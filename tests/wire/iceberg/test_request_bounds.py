"""Limits on the size of request documents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.wire.iceberg.lake import Lake, opened_lake

MIB = 1024 * 1024


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


def properties(count: int, *, value: str = "") -> dict[str, str]:
    return {f"p{number}": value for number in range(count)}


async def test_documents_without_schemas_have_a_small_limit(lake: Lake) -> None:
    document = {"namespace": ["big"], "properties": properties(200, value="x" * 8192)}
    large = await lake.call("POST", "/lake/namespaces", document)
    assert (large.status, "body too large" in large.document["error"]["message"]) == (400, True)
    many = await lake.call("POST", "/lake/namespaces", {"namespace": ["many"], "properties": properties(60_000)})
    assert (many.status, "too many values. limit=50000" in many.document["error"]["message"]) == (400, True)
    document = {"namespace": ["some"], "properties": properties(200)}
    assert (await lake.call("POST", "/lake/namespaces", document)).status == 200


async def test_commits_have_a_large_limit(lake: Lake) -> None:
    update = {"action": "set-properties", "updates": properties(200, value="x" * 8192)}
    path = "/lake/namespaces/ns/tables/t"
    assert (await lake.call("POST", path, {"requirements": [], "updates": [update]})).status == 200
    body = json.dumps({"requirements": [], "updates": [], "x": list(range(500_000))}).encode()
    refused = await lake.send("POST", "/iceberg/v1" + path, body)
    assert (refused.status, "too many values" in refused.document["error"]["message"]) == (400, True)
    larger = await lake.send("POST", "/iceberg/v1" + path, b" " * (16 * MIB + 1))
    assert (larger.status, "body too large" in larger.document["error"]["message"]) == (400, True)
