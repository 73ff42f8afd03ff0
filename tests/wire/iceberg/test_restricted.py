"""What a client is told and given of a table that its user sees only a part of."""

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
    """A table with data, of which one of two users with the same rights sees a part."""

    lake: Lake
    reader: Keys
    other: Keys

    async def hide(self, condition: Any = False, name: str = "p") -> None:
        """Have a row filter hold for the reader."""
        policies = PolicyLake(self.lake)
        content = {"enable": True, "restricts": {"principals": ["reader"]}, "filter": condition}
        made = await policies.create(name, "lakebed.row-filter", json.dumps(content))
        assert made.status == 200, made.body
        assert (await policies.attach(TARGET, name)).status == 204

    async def fill(self) -> None:
        """Have the copies made that wait for it."""
        catalog = wire_catalog(self.lake.store)
        for claim in await catalog.tasks.claim([JobKind.COPY_RESTRICTED], "w", 60, limit=9):
            copy = name(json.loads(claim.task.payload)["table"], COPIES_NAMESPACE)
            await catalog.commit(copy, *await appended(catalog, copy))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with opened_lake(tmp_path) as lake:
        rights = allow("s3tables:*", "s3:*")
        yield Stage(lake, await lake.user("reader", rights), await lake.user("other", rights))


@pytest.mark.parametrize("access", [None, VENDED, SIGNING])
async def test_loading_gives_no_way_to_the_files_and_says_who_plans(stage: Stage, access: str | None) -> None:
    lake = stage.lake
    await table_with_data(lake)
    before = await lake.call("GET", TABLE, keys=stage.reader, access=access)
    await stage.hide()
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


async def test_neither_keys_nor_signatures_nor_changes_are_for_who_sees_a_part(stage: Stage) -> None:
    lake = stage.lake
    made = await table_with_data(lake)
    early = (await lake.call("GET", TABLE, keys=stage.reader, access=VENDED)).document["config"]
    file = "/" + made["metadata-location"].removeprefix("s3://")
    assert (await lake.send("GET", file, keys=keys_in(early))).status == 200
    await stage.hide()
    # Those of before end with the policy's coming, and so do the user's own.
    assert (await lake.send("GET", file, keys=keys_in(early))).status == 403
    assert (await lake.send("GET", file, keys=stage.reader)).status == 403
    assert (await lake.send("GET", file, keys=stage.other)).status == 200
    signing = {"region": "us-east-1", "uri": f"http://{HOST}{file}", "method": "GET", "headers": {}}
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    several = {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **commit}]}
    move = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    asked: list[tuple[str, str, object]] = [
        ("GET", TABLE + "/credentials", None),
        ("POST", TABLE + "/sign", signing),
        ("POST", "/aws/s3/sign", signing),
        ("POST", TABLE, commit),
        ("POST", "/lake/transactions/commit", several),
        ("POST", "/lake/tables/rename", move),
        ("POST", TABLE + "/unregister", None),
        ("DELETE", TABLE, None),
    ]
    for method, path, document in asked:
        refused = await lake.call(method, path, document, keys=stage.reader)
        assert refused.error == (403, "ForbiddenException"), path
    assert (await lake.call("POST", TABLE, commit, keys=stage.other)).status == 200


async def test_selects_from_files_are_refused_as_reading_them_is(stage: Stage) -> None:
    made = await table_with_data(stage.lake)
    store = stage.lake.store
    asking = wire_lake(store, selects=SelectService(store.reader, store.lister, store.clock))
    bucket, _, key = made["metadata-location"].removeprefix("s3://").partition("/")
    sql = 'SELECT s."format-version" FROM S3Object s'
    body = (
        f"<SelectObjectContentRequest><Expression>{sql}</Expression><ExpressionType>SQL</ExpressionType>"
        "<InputSerialization><JSON><Type>DOCUMENT</Type></JSON></InputSerialization>"
        "<OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>"
    ).encode()
    one = f"/{bucket}/{key}?select&select-type=2"
    many = f"/{bucket}?select&select-type=2&prefix={quote(key, safe='')}"
    await stage.hide()
    for path in (one, many):
        assert (await asking.send("POST", path, body, keys=stage.reader)).status == 403
        assert b"2\n" in (await asking.send("POST", path, body, keys=stage.other)).body


async def test_plans_are_of_a_copy_and_bring_keys_to_it_alone(stage: Stage) -> None:
    lake = stage.lake
    made = await table_with_data(lake)
    await stage.hide()
    waiting = await lake.call("POST", PLAN, {}, keys=stage.reader, access=SIGNING)
    assert waiting.document == {"status": "submitted", "plan-id": waiting.document["plan-id"]}
    where = f"{PLAN}/{waiting.document['plan-id']}"
    assert (await lake.call("GET", where, keys=stage.reader)).document["status"] == "submitted"
    assert (await lake.call("GET", where, keys=stage.other)).error == (404, "NoSuchPlanIdException")
    await stage.fill()
    done = (await lake.call("GET", where, keys=stage.reader)).document
    assert done["status"] == "completed"
    (task,) = done["file-scan-tasks"]
    (credential,) = done["storage-credentials"]
    path = task["data-file"]["file-path"]
    assert path.startswith(credential["prefix"])
    assert PLAIN.items() <= credential["config"].items()
    keys = keys_in(credential["config"])
    assert (await lake.send("GET", "/" + path.removeprefix("s3://"), keys=keys)).status == 200
    own = "/" + made["metadata-location"].removeprefix("s3://")
    for method, target in (("GET", own), ("PUT", "/" + path.removeprefix("s3://")), ("DELETE", own)):
        assert (await lake.send(method, target, keys=keys)).status == 403
    # What was made for some is not for others, by whichever way they come.
    copy = path.split("/")[4]
    for caller in (stage.reader, stage.other):
        assert (await lake.send("GET", "/" + path.removeprefix("s3://"), keys=caller)).status == 403
        table = f"/lake/namespaces/{COPIES_NAMESPACE}/tables/{copy}"
        assert (await lake.call("GET", table, keys=caller)).error == (403, "ForbiddenException")


async def test_a_policy_that_cannot_be_applied_refuses_and_says_so(stage: Stage) -> None:
    await table_with_data(stage.lake)
    await stage.hide({"type": "eq", "term": "nowhere", "value": 1})
    refused = await stage.lake.call("POST", PLAN, {}, keys=stage.reader)
    assert refused.error == (403, "ForbiddenException")
    assert "ns.p v0" in refused.document["error"]["message"]


async def test_a_table_without_rows_is_planned_at_once(stage: Stage) -> None:
    await stage.lake.table()
    await stage.hide()
    planned = (await stage.lake.call("POST", PLAN, {}, keys=stage.reader)).document
    assert planned["status"] == "completed"
    assert planned["file-scan-tasks"] == []
    assert "storage-credentials" not in planned


async def test_copies_are_not_ordered_as_tasks(stage: Stage) -> None:
    await table_with_data(stage.lake)
    order = {"job": "copy-restricted", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    answer = await stage.lake.send("POST", "/lakebed/v1/tasks", json.dumps(order).encode())
    assert answer.status == 400
