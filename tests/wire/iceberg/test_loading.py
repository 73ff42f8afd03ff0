"""Responses with table metadata are the same in one piece and in several."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.wire.iceberg import loading
from tests.objects.stores import opened_store

from .handlers.tables_with_data import TABLE, append, set_property, table_with_data
from .lake import Lake, wire_lake


@pytest.fixture(params=["memory", "folder"])
async def lake(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table bucket, on each storage backend."""
    address = f"sqlite:{tmp_path / 'meta.db'}"
    async with opened_store(address, request.param, tmp_path / "bytes", ManualClock()) as store:
        wired = wire_lake(store)
        await wired.make_lake()
        yield wired


@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["pieces", "joined"])
async def test_responses_have_the_content_of_the_metadata_file(
    lake: Lake, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_LONG_BYTES", limit)
    await table_with_data(lake)
    committed = [await append(lake) for _ in range(12)]
    committed.append(await set_property(lake, "colour", "réd \u2028"))
    etags = set()
    for answer in committed:
        path = "/" + answer["metadata-location"].removeprefix("s3://")
        file = await lake.send("GET", path)
        assert answer["metadata"] == json.loads(file.body)
        assert list(answer) == ["metadata-location", "metadata", "version-token", "generation", "commit-id"]
        part = await lake.send("GET", path, headers={"range": "bytes=10-2000"})
        assert (part.status, part.body) == (206, file.body[10:2001])
        etags.add(file.headers["etag"].strip('"')[-2:])
    assert "-7" in etags, "some metadata files share history"
    loaded = (await lake.call("GET", TABLE)).document
    assert list(loaded) == ["metadata-location", "metadata", "config"]
    assert loaded["metadata"] == committed[-1]["metadata"]
    few = (await lake.call("GET", TABLE + "?snapshots=refs")).document["metadata"]
    assert [one["snapshot-id"] for one in few["snapshots"]] == [few["current-snapshot-id"]]
    assert few["snapshot-log"] == committed[-1]["metadata"]["snapshot-log"]
