"""The extensions for table buckets on running servers, with tables of PyIceberg."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.clients.boto import REGION, connected, root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.slow, pytest.mark.integration]

TABLE = "namespaces/ns/tables/t"
WAIT_SECONDS = 60.0


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def read(lake: Lake) -> list[int]:
    """The ids that PyIceberg reads from the table."""
    with lake.catalog() as catalog:
        ids: list[int] = catalog.load_table(("ns", "t")).scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def append(lake: Lake, *ids: int) -> None:
    with lake.catalog() as catalog:
        catalog.load_table(("ns", "t")).append(rows(*ids))


def make_table(lake: Lake, *ids: int) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "t"), schema=rows().schema).append(rows(*ids))


def wait_for(call: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Repeat a call until its result satisfies the condition."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds(found := call()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.fixture
def lake(lakebed_server: RunningServer) -> Lake:
    return new_lake(lakebed_server)


def test_branches_pointers_and_rollback_of_a_real_table(lake: Lake) -> None:
    make_table(lake, 1)
    before = lake.call("GET", f"{TABLE}/metadata-location")
    snapshot = lake.call("GET", f"{TABLE}/refs")["current-snapshot-id"]
    lake.call("PUT", f"{TABLE}/refs/first", {"snapshot-id": snapshot, "type": "tag"})
    append(lake, 2)
    with lake.catalog() as catalog:
        table = catalog.load_table(("ns", "t"))
        assert table.refs()["first"].snapshot_id == snapshot
    now = lake.call("GET", f"{TABLE}/metadata-location")
    rolled = lake.call(
        "POST",
        f"{TABLE}/catalog/rollback",
        {"metadata-location": before["metadata-location"], "version-token": now["version-token"]},
    )
    assert rolled["rollback-mode"] == "forward"
    assert read(lake) == [1]
    append(lake, 3)
    assert read(lake) == [1, 3]
    found = lake.call("GET", f"{TABLE}/catalog/diagnostics")
    assert (found["recovery_status"], found["metadata"]["snapshot_count"]) == ("HEALTHY", 3)
    operations = [commit["operation"] for commit in found["commit_recovery"]["commits"]]
    assert operations == ["append", "rollback", "append", "commit", "append", "create"]


def test_unregistered_table_is_imported_under_another_name(lake: Lake) -> None:
    make_table(lake, 1, 2)
    metadata_location = lake.call("GET", f"{TABLE}/metadata-location")["metadata-location"]
    lake.call("DELETE", TABLE)
    lake.call("POST", "namespaces/ns/tables/u/catalog/import", {"metadata-location": metadata_location})
    with lake.catalog() as catalog:
        assert catalog.load_table(("ns", "u")).scan().to_arrow().num_rows == 2


def test_restored_table_has_its_rows(lake: Lake) -> None:
    window = {"updates": {"undrop-window-seconds": "3600"}}
    assert lake.request("POST", f"buckets/{lake.warehouse}/properties", window).status == 200
    make_table(lake, 1)
    with lake.catalog() as catalog:
        catalog.purge_table(("ns", "t"))
    lake.call("POST", "dropped/restore", {"namespace": ["ns"], "name": "t"})
    assert read(lake) == [1]


# -- bridges ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    data: Path = tmp_path_factory.mktemp("follower") / "data"
    with running_server(data, LAKEBED_TABLES__BRIDGE_INTERVAL="200ms", LAKEBED_FEDERATION__HOSTS="127.0.0.1") as server:
        yield server


def replicate(source: Lake, target: Lake) -> None:
    """Copy new objects as bucket replication would: data files before the metadata files that reference them."""
    with connected(source.server) as there, connected(target.server) as here:

        def keys(s3: Any, bucket: str) -> list[str]:
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            return [one["Key"] for page in pages for one in page.get("Contents", [])]

        known = set(keys(here, target.warehouse))
        for key in sorted(keys(there, source.warehouse), key=lambda key: key.endswith(".json")):
            if key not in known:
                body = there.get_object(Bucket=source.warehouse, Key=key)["Body"].read()
                here.put_object(Bucket=target.warehouse, Key=key, Body=body)


def test_bridge_follows_another_server_until_both_commit(lake: Lake, follower: RunningServer) -> None:
    make_table(lake, 1)
    mirror = Lake(follower, lake.warehouse)
    with connected(follower) as s3:
        s3.create_bucket(Bucket=mirror.warehouse)
    assert mirror.request("PUT", f"buckets/{mirror.warehouse}").status == 200
    mirror.call("POST", "namespaces", {"namespace": ["ns"]})
    keys = root_keys(lake.server)
    configured = mirror.call(
        "PUT",
        f"{TABLE}/catalog/external",
        {
            "catalog": "iceberg-rest",
            "external-namespace": "ns",
            "external-table": "t",
            "uri": f"{lake.server.endpoint}/iceberg",
            "warehouse": lake.warehouse,
            "sync-mode": "poll",
            "poll-interval-seconds": 1,
            "auth": {
                "type": "sigv4",
                "access-key-id": keys.access_key,
                "secret-access-key": keys.secret_key,
                "region": REGION,
                "service": "s3tables",
            },
        },
    )
    assert keys.secret_key not in json.dumps(configured)

    def bridge() -> Any:  # Any: JSON
        return mirror.call("GET", f"{TABLE}/catalog/external")["bridge"]

    def is_synced() -> bool:
        at: str = lake.call("GET", f"{TABLE}/metadata-location")["metadata-location"]
        return bool(bridge()["last-synced-metadata-location"] == at)

    # Nothing was replicated yet: the files of the external table are missing here.
    assert wait_for(bridge, lambda found: found["last-sync-status"] == "missing")["consecutive-failures"] >= 1
    replicate(lake, mirror)
    wait_for(is_synced, bool)
    assert read(mirror) == [1]
    append(lake, 2)
    replicate(lake, mirror)
    wait_for(is_synced, bool)
    assert read(mirror) == [1, 2]
    # A local commit is not overwritten.
    append(mirror, 100)
    append(lake, 3)
    replicate(lake, mirror)
    before = mirror.call("GET", f"{TABLE}/metadata-location")
    assert (
        "has commits since the last sync"
        in wait_for(bridge, lambda found: found["last-sync-status"] == "conflict")["last-sync-message"]
    )
    assert mirror.call("GET", f"{TABLE}/metadata-location") == before
    assert read(mirror) == [1, 2, 100]
    assert mirror.call("GET", f"{TABLE}/catalog/diagnostics")["recovery_status"] == "HEALTHY"
    assert keys.secret_key not in follower.log_text()
