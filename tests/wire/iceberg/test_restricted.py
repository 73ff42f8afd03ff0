"""Tables with row filters for restricted principals: metadata, access to files, and scan plans."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakebed.catalog.restrictions import COPIES_NAMESPACE
from lakebed.catalog.restrictions.restricted_metadata import HIDDEN_LOCATION
from lakebed.core.jobs import JobKind
from lakebed.select.service import SelectService
from tests.catalog.appends import appended
from tests.catalog.harness import name, wire_catalog
from tests.clients.boto import Keys
from tests.wire.polaris.policy_lake import TABLE as TARGET
from tests.wire.polaris.policy_lake import PolicyLake

from .handlers.tables_with_data import TABLE, table_with_data
from .lake import HOST, Lake, allow, keys_in, opened_lake, wire_lake

PLAN = TABLE + "/plan"
PLAIN = {"s3.endpoint": f"http://{HOST}", "s3.path-style-access": "true", "client.region": "us-east-1"}
VENDED, SIGNING = "vended-credentials", "remote-signing"


@dataclass(frozen=True)
class Stage:
    """A table with data, and two users with the same permissions; `reader` can be restricted."""

    lake: Lake
    reader: Keys
    other: Keys

    async def restrict(self, condition: Any = False, name: str = "p") -> None:
        """Attach a row filter for the reader."""
        policies = PolicyLake(self.lake)
        content = {"enable": True, "restricts": {"principals": ["reader"]}, "filter": condition}
        created = await policies.create(name, "lakebed.row-filter", json.dumps(content))
        assert created.status == 200, created.body
        assert (await policies.attach(TARGET, name)).status == 204

    async def write_copies(self) -> None:
        """Write the queued restricted copies."""
        catalog = wire_catalog(self.lake.store)
        for claim in await catalog.tasks.claim([JobKind.COPY_RESTRICTED], "w", 60, limit=9):
            copy = name(json.loads(claim.task.payload)["table"], COPIES_NAMESPACE)
            await catalog.commit(copy, *await appended(catalog, copy))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with opened_lake(tmp_path) as lake:
        statement = allow("s3tables:*", "s3:*")
        yield Stage(lake, await lake.user("reader", statement), await lake.user("other", statement))


@pytest.mark.parametrize("access", [None, VENDED, SIGNING])
async def test_restricted_load_hides_files_and_requires_server_planning(stage: Stage, access: str | None) -> None:
    lake = stage.lake
    await table_with_data(lake)
    before = await lake.call("GET", TABLE, keys=stage.reader, access=access)
    await stage.restrict()
    after = await lake.call("GET", TABLE, keys=stage.reader, access=access, if_none_match=before.headers["etag"])
    assert after.status == 200
    assert after.document["config"] == PLAIN | {"scan-planning-mode": "server"}
    assert "storage-credentials" not in after.document
    (snapshot,) = after.document["metadata"]["snapshots"]
    assert snapshot["manifest-list"] == HIDDEN_LOCATION
    tag = after.headers["etag"]
    assert (await lake.call("GET", TABLE, keys=stage.reader, access=access, if_none_match=tag)).status == 304
    (snapshot,) = (await lake.call("GET", TABLE, keys=stage.other)).document["metadata"]["snapshots"]
    assert snapshot["manifest-list"].startswith("s3://lake/")


async def test_restricted_principal_gets_no_credentials_signatures_or_changes(stage: Stage) -> None:
    lake = stage.lake
    created = await table_with_data(lake)
    early = (await lake.call("GET", TABLE, keys=stage.reader, access=VENDED)).document["config"]
    file = "/" + created["metadata-location"].removeprefix("s3://")
    assert (await lake.send("GET", file, keys=keys_in(early))).status == 200
    await stage.restrict()
    # Earlier credentials end with the attachment of the policy, as do the user's own S3 permissions on the files.
    assert (await lake.send("GET", file, keys=keys_in(early))).status == 403
    assert (await lake.send("GET", file, keys=stage.reader)).status == 403
    assert (await lake.send("GET", file, keys=stage.other)).status == 200
    signing = {"region": "us-east-1", "uri": f"http://{HOST}{file}", "method": "GET", "headers": {}}
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    several = {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **commit}]}
    move = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    requests: list[tuple[str, str, object]] = [
        ("GET", TABLE + "/credentials", None),
        ("POST", TABLE + "/sign", signing),
        ("POST", "/aws/s3/sign", signing),
        ("POST", TABLE, commit),
        ("POST", "/lake/transactions/commit", several),
        ("POST", "/lake/tables/rename", move),
        ("POST", TABLE + "/unregister", None),
        ("DELETE", TABLE, None),
    ]
    for method, path, document in requests:
        refused = await lake.call(method, path, document, keys=stage.reader)
        assert refused.error == (403, "ForbiddenException"), path
    assert (await lake.call("POST", TABLE, commit, keys=stage.other)).status == 200


async def test_restricted_principal_cannot_select_from_files(stage: Stage) -> None:
    created = await table_with_data(stage.lake)
    store = stage.lake.store
    lake = wire_lake(store, selects=SelectService(store.reader, store.lister, store.clock))
    bucket, _, key = created["metadata-location"].removeprefix("s3://").partition("/")
    sql = 'SELECT s."format-version" FROM S3Object s'
    body = (
        f"<SelectObjectContentRequest><Expression>{sql}</Expression><ExpressionType>SQL</ExpressionType>"
        "<InputSerialization><JSON><Type>DOCUMENT</Type></JSON></InputSerialization>"
        "<OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>"
    ).encode()
    one = f"/{bucket}/{key}?select&select-type=2"
    many = f"/{bucket}?select&select-type=2&prefix={quote(key, safe='')}"
    await stage.restrict()
    for path in (one, many):
        assert (await lake.send("POST", path, body, keys=stage.reader)).status == 403
        assert b"2\n" in (await lake.send("POST", path, body, keys=stage.other)).body


async def test_restricted_plan_reads_a_copy_with_credentials_for_it_only(stage: Stage) -> None:
    lake = stage.lake
    created = await table_with_data(lake)
    await stage.restrict()
    waiting = await lake.call("POST", PLAN, {}, keys=stage.reader, access=SIGNING)
    assert waiting.document == {"status": "submitted", "plan-id": waiting.document["plan-id"]}
    plan = f"{PLAN}/{waiting.document['plan-id']}"
    assert (await lake.call("GET", plan, keys=stage.reader)).document["status"] == "submitted"
    assert (await lake.call("GET", plan, keys=stage.other)).error == (404, "NoSuchPlanIdException")
    await stage.write_copies()
    done = (await lake.call("GET", plan, keys=stage.reader)).document
    assert done["status"] == "completed"
    (task,) = done["file-scan-tasks"]
    (credential,) = done["storage-credentials"]
    path = task["data-file"]["file-path"]
    assert path.startswith(credential["prefix"])
    assert PLAIN.items() <= credential["config"].items()
    keys = keys_in(credential["config"])
    assert (await lake.send("GET", "/" + path.removeprefix("s3://"), keys=keys)).status == 200
    own = "/" + created["metadata-location"].removeprefix("s3://")
    for method, target in (("GET", own), ("PUT", "/" + path.removeprefix("s3://")), ("DELETE", own)):
        assert (await lake.send(method, target, keys=keys)).status == 403
    # A copy is readable only with the credentials of a plan.
    copy = path.split("/")[4]
    for caller in (stage.reader, stage.other):
        assert (await lake.send("GET", "/" + path.removeprefix("s3://"), keys=caller)).status == 403
        table = f"/lake/namespaces/{COPIES_NAMESPACE}/tables/{copy}"
        assert (await lake.call("GET", table, keys=caller)).error == (403, "ForbiddenException")


async def test_inapplicable_policy_refuses_plans_and_is_named(stage: Stage) -> None:
    await table_with_data(stage.lake)
    await stage.restrict({"type": "eq", "term": "nowhere", "value": 1})
    refused = await stage.lake.call("POST", PLAN, {}, keys=stage.reader)
    assert refused.error == (403, "ForbiddenException")
    assert "ns.p v0" in refused.document["error"]["message"]


async def test_restricted_plan_of_an_empty_table_completes_at_once(stage: Stage) -> None:
    await stage.lake.table()
    await stage.restrict()
    planned = (await stage.lake.call("POST", PLAN, {}, keys=stage.reader)).document
    assert planned["status"] == "completed"
    assert planned["file-scan-tasks"] == []
    assert "storage-credentials" not in planned


async def test_copies_cannot_be_submitted_as_tasks(stage: Stage) -> None:
    await table_with_data(stage.lake)
    spec = {"job": "copy-restricted", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    answer = await stage.lake.send("POST", "/lakebed/v1/tasks", json.dumps(spec).encode())
    assert answer.status == 400
