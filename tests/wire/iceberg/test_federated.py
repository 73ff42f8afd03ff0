from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakebed.core.errors import Unavailable
from lakebed.net.http import HttpRequest, HttpResponse
from tests.catalog.harness import VIEW_VERSION

from .lake import SCHEMA, Answer
from .two_lakes import CATALOG, TwoLakes, two_lakes

TABLE = "/namespaces/ns/tables/t"
SET: dict[str, Any] = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path) as both:
        yield both


def renamed(source: str, target: str) -> dict[str, Any]:
    return {
        "source": {"namespace": ["ns"], "name": source},
        "destination": {"namespace": ["ns"], "name": target},
    }


# -- forwarded operations -------------------------------------------------------------------------------------------


async def test_namespaces_are_those_of_the_external_catalog(lakes: TwoLakes) -> None:
    assert (await lakes.call_ok("GET", "/namespaces"))["namespaces"] == [["ns"]]
    created = await lakes.call_ok("POST", "/namespaces", {"namespace": ["a", "b"], "properties": {"k": "v"}})
    assert created == {"namespace": ["a", "b"], "properties": {"k": "v"}}
    assert (await lakes.call_ok("GET", "/namespaces?parent=a"))["namespaces"] == [["a", "b"]]
    assert (await lakes.far.call("GET", "/lake/namespaces/a%1Fb")).document["properties"]["k"] == "v"
    assert (await lakes.call_ok("GET", "/namespaces/a%1Fb"))["properties"]["k"] == "v"
    changed = await lakes.call_ok("POST", "/namespaces/a%1Fb/properties", {"updates": {"x": "y"}, "removals": ["k"]})
    assert (changed["updated"], changed["removed"]) == (["x"], ["k"])
    assert (await lakes.call("HEAD", "/namespaces/a%1Fb")).status == 204
    await lakes.call_ok("DELETE", "/namespaces/a%1Fb")
    assert (await lakes.call("HEAD", "/namespaces/a%1Fb")).status == 404
    assert (await lakes.far.call("HEAD", "/lake/namespaces/a%1Fb")).status == 404


async def test_tables_are_those_of_the_external_catalog(lakes: TwoLakes) -> None:
    created = (await lakes.table()).document
    remote = (await lakes.far.call("GET", f"/lake{TABLE}")).document
    assert created["metadata-location"] == remote["metadata-location"]
    assert (await lakes.call_ok("GET", TABLE))["metadata"] == remote["metadata"]
    assert (await lakes.call("HEAD", TABLE)).status == 204
    committed = await lakes.call_ok("POST", TABLE, SET)
    assert committed["metadata"]["properties"]["k"] == "v"
    assert "config" not in committed
    await lakes.call_ok("POST", "/tables/rename", renamed("t", "u"))
    listed = await lakes.call_ok("GET", "/namespaces/ns/tables")
    assert listed["identifiers"] == [{"namespace": ["ns"], "name": "u"}]
    assert (await lakes.far.call("HEAD", "/lake/namespaces/ns/tables/u")).status == 204
    await lakes.call_ok("DELETE", "/namespaces/ns/tables/u")
    document = {"name": "registered", "metadata-location": committed["metadata-location"]}
    registered = await lakes.call_ok("POST", "/namespaces/ns/register", document)
    assert registered["metadata-location"] == committed["metadata-location"]
    assert (await lakes.call("DELETE", "/namespaces/ns/tables/registered?purgeRequested=true")).status == 204
    assert (await lakes.far.call("GET", "/lake/namespaces/ns/tables")).document["identifiers"] == []


async def test_forwarded_changes_create_no_rows_here(lakes: TwoLakes) -> None:
    await lakes.table()
    await lakes.call_ok("POST", TABLE, SET)
    for table in ("namespaces", "entries", "entry_commits", "entry_locations"):
        assert await lakes.near.store.object_context.meta.rows(f"SELECT * FROM {table}") == []


async def test_staged_table_is_created_by_its_commit(lakes: TwoLakes) -> None:
    staged = (await lakes.table(stage_create=True)).document
    assert (await lakes.call("HEAD", TABLE)).status == 404
    metadata = staged["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]
    await lakes.call_ok("POST", TABLE, {"requirements": [{"type": "assert-create"}], "updates": updates})
    assert (await lakes.far.call("HEAD", f"/lake{TABLE}")).status == 204
    assert (await lakes.events())[-1] == "TableCreated"


async def test_views_are_those_of_the_external_catalog(lakes: TwoLakes) -> None:
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
    created = await lakes.call_ok("POST", "/namespaces/ns/views", view)
    assert (await lakes.call_ok("GET", "/namespaces/ns/views/v"))["metadata"] == created["metadata"]
    assert (await lakes.call("HEAD", "/namespaces/ns/views/v")).status == 204
    change = {"updates": [{"action": "set-properties", "updates": {"k": "v"}}], "requirements": []}
    replaced = await lakes.call_ok("POST", "/namespaces/ns/views/v", change)
    assert replaced["metadata"]["properties"]["k"] == "v"
    await lakes.call_ok("POST", "/views/rename", renamed("v", "w"))
    assert (await lakes.call_ok("GET", "/namespaces/ns/views"))["identifiers"] == [{"namespace": ["ns"], "name": "w"}]
    await lakes.call_ok("DELETE", "/namespaces/ns/views/w")
    document = {"name": "registered", "metadata-location": replaced["metadata-location"]}
    assert (await lakes.call_ok("POST", "/namespaces/ns/register-view", document))["config"] == {}
    assert (await lakes.far.call("HEAD", "/lake/namespaces/ns/views/registered")).status == 204


async def test_transactions_are_atomic(lakes: TwoLakes) -> None:
    await lakes.table("a")
    await lakes.table("b")
    changes = [{"identifier": {"namespace": ["ns"], "name": name}, **SET} for name in ("a", "b")]
    await lakes.call_ok("POST", "/transactions/commit", {"table-changes": changes})
    for name in ("a", "b"):
        assert (await lakes.call_ok("GET", f"/namespaces/ns/tables/{name}"))["metadata"]["properties"]["k"] == "v"
    assert (await lakes.events())[-2:] == ["TableCommitted", "TableCommitted"]
    changes[1]["requirements"] = [{"type": "assert-table-uuid", "uuid": str(uuid4())}]
    refused = await lakes.call("POST", "/transactions/commit", {"table-changes": changes})
    assert refused.error == (409, "CommitFailedException")


async def test_metrics_reports_are_forwarded(lakes: TwoLakes) -> None:
    await lakes.table()
    report = {
        "report-type": "scan-report",
        "table-name": "ns.t",
        "snapshot-id": 1,
        "filter": True,
        "schema-id": 0,
        "projected-field-ids": [],
        "projected-field-names": [],
        "metrics": {},
    }
    await lakes.call_ok("POST", f"{TABLE}/metrics", report)
    kept = (await lakes.far.call("GET", f"/lake{TABLE}/metrics")).document["reports"]
    assert [one["report"]["table-name"] for one in kept] == ["ns.t"]
    assert (await lakes.call("POST", f"{TABLE}/metrics", {**report, "report-type": "x"})).status == 400


async def test_pages_are_those_of_the_external_catalog(lakes: TwoLakes) -> None:
    for name in ("a", "b", "c"):
        await lakes.table(name)
    first = await lakes.call_ok("GET", "/namespaces/ns/tables?pageToken=&pageSize=2")
    assert [one["name"] for one in first["identifiers"]] == ["a", "b"]
    rest = await lakes.call_ok("GET", f"/namespaces/ns/tables?pageSize=2&pageToken={first['next-page-token']}")
    assert [one["name"] for one in rest["identifiers"]] == ["c"]
    assert rest["next-page-token"] is None


async def test_configuration_lists_forwarded_endpoints_of_the_external_catalog(lakes: TwoLakes) -> None:
    config = (await lakes.near.call("GET", f"/config?warehouse={CATALOG}")).document
    assert config["overrides"]["prefix"] == CATALOG
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan" not in config["endpoints"]
    assert not any("polaris" in endpoint for endpoint in config["endpoints"])
    assert config["idempotency-key-lifetime"]
    whole = (await lakes.near.call("GET", "/config")).document
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan" in whole["endpoints"]

    def minimal(request: HttpRequest) -> HttpResponse | None:
        if "/v1/config" not in request.url:
            return None
        return HttpResponse(200, b'{"defaults": {}, "overrides": {"prefix": "lake"}}')

    lakes.wire.instead = minimal
    lakes.expire_config()
    config = (await lakes.near.call("GET", f"/config?warehouse={CATALOG}")).document
    assert "GET /v1/{prefix}/namespaces/{namespace}/views" not in config["endpoints"]
    assert "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    # Clients would repeat requests with unknown outcomes.
    assert "idempotency-key-lifetime" not in config
    await lakes.table()
    lakes.wire.take()
    assert (await lakes.call("HEAD", TABLE)).status == 204
    assert lakes.wire.take() == [("GET", f"/lake{TABLE}")]
    assert (await lakes.call("GET", "/namespaces/ns/views")).error == (406, "UnsupportedOperationException")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{TABLE}/plan"),
        ("POST", f"{TABLE}/sign"),
        ("POST", f"{TABLE}/unregister"),
        ("GET", f"{TABLE}/refs"),
        ("GET", f"{TABLE}/maintenance/config"),
    ],
)
async def test_operations_that_are_not_forwarded_are_refused(lakes: TwoLakes, method: str, path: str) -> None:
    await lakes.table()
    answer = await lakes.call(method, path, {} if method == "POST" else None)
    assert answer.status in (404, 406), answer
    if answer.status == 406:
        assert "not supported for federated catalogs" in answer.document["error"]["message"]


async def test_policies_are_refused(lakes: TwoLakes) -> None:
    answer = await lakes.near.send("GET", f"/polaris/v1/{CATALOG}/namespaces/ns/policies/p")
    assert answer.error == (406, "UnsupportedOperationException")
    answer = await lakes.near.send("GET", f"/lakebed/v1/tables/{CATALOG}/ns/t/health")
    assert answer.error == (406, "UnsupportedOperationException")


async def test_internal_catalogs_are_unaffected(lakes: TwoLakes) -> None:
    await lakes.near.make_lake()
    assert (await lakes.near.table()).status == 200
    lakes.wire.take()
    assert (await lakes.near.call("GET", "/lake/namespaces/ns/tables/t")).status == 200
    assert lakes.wire.take() == []


# -- events -----------------------------------------------------------------------------------------------------------


async def test_changes_emit_the_events_of_internal_catalogs(lakes: TwoLakes) -> None:
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["a"]})
    await lakes.call_ok("POST", "/namespaces/a/properties", {"updates": {"x": "y"}})
    await lakes.call_ok("DELETE", "/namespaces/a")
    created = (await lakes.table()).document
    await lakes.call_ok("POST", TABLE, SET)
    await lakes.call_ok("POST", "/tables/rename", renamed("t", "u"))
    await lakes.call_ok("DELETE", "/namespaces/ns/tables/u")
    events = await lakes.events()
    assert events[events.index("ConnectionConfigured") + 1 :] == [
        "NamespaceCreated",
        "NamespaceConfigured",
        "NamespaceDropped",
        "TableCreated",
        "TableCommitted",
        "TableRenamed",
        "TableDropped",
    ]
    page = (await lakes.near.send("GET", "/lakebed/v1/events?kind=TableCreated")).document
    payload = page["events"][-1]["payload"]
    assert payload["uuid"] == created["metadata"]["table-uuid"]
    assert payload["metadata_at"] == created["metadata-location"]
    assert payload["facts"]["remote"] == "far.example:9000"


async def test_entity_tags_are_forwarded_both_ways(lakes: TwoLakes) -> None:
    await lakes.table()
    loaded = await lakes.call("GET", TABLE)
    tag = loaded.headers["etag"]
    assert (await lakes.call("GET", TABLE, if_none_match=tag)).status == 304
    await lakes.call_ok("POST", TABLE, SET)
    repeated = await lakes.call("GET", TABLE, if_none_match=tag)
    assert repeated.status == 200
    assert repeated.headers["etag"] != tag
    # A response with credentials has another tag.
    assert (await lakes.call("GET", TABLE, access="vended-credentials", if_none_match=tag)).status == 200


# -- errors -----------------------------------------------------------------------------------------------------------


async def test_conflict_keeps_its_message(lakes: TwoLakes) -> None:
    await lakes.table()
    change = {**SET, "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 7}]}
    local, remote = await lakes.call("POST", TABLE, change), await lakes.far.call("POST", f"/lake{TABLE}", change)
    assert local.error == (409, "CommitFailedException")
    assert local.document["error"]["message"] == remote.document["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "document", "error"),
    [
        ("GET", "/namespaces/ghost", None, (404, "NoSuchNamespaceException")),
        ("GET", "/namespaces/ns/tables/ghost", None, (404, "NoSuchTableException")),
        ("GET", "/namespaces/ns/views/ghost", None, (404, "NoSuchViewException")),
        ("GET", "/namespaces/ghost/tables", None, (404, "NoSuchNamespaceException")),
        ("DELETE", "/namespaces/ns/tables/ghost", None, (404, "NoSuchTableException")),
        ("POST", "/namespaces/ns/tables/ghost", SET, (404, "NoSuchTableException")),
        ("POST", "/namespaces", {"namespace": ["ns"]}, (409, "AlreadyExistsException")),
        ("POST", "/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}, (409, "AlreadyExistsException")),
        ("DELETE", "/namespaces/ns", None, (409, "NamespaceNotEmptyException")),
        ("POST", "/namespaces/ns/properties", {"updates": {"a": "b"}, "removals": ["a"]}, (422, None)),
        ("POST", "/namespaces/ns/tables", {"name": "x", "schema": {"type": "struct"}}, (400, "BadRequestException")),
        ("POST", "/namespaces/ns/tables", {"schema": SCHEMA}, (400, "BadRequestException")),
        ("POST", "/namespaces/ns/tables", {"name": "../x", "schema": SCHEMA}, (400, "BadRequestException")),
        ("POST", "/namespaces/ns/tables", {"name": 7}, (400, "BadRequestException")),
        ("POST", TABLE, {"updates": 7}, (400, "BadRequestException")),
        ("POST", TABLE, {"identifier": {"namespace": ["ns"], "name": "other"}}, (400, "BadRequestException")),
        ("POST", "/transactions/commit", {"table-changes": []}, (400, "BadRequestException")),
        ("POST", "/transactions/commit", {"table-changes": [SET]}, (400, "BadRequestException")),
    ],
)
async def test_errors_keep_their_type(
    lakes: TwoLakes, method: str, path: str, document: object, error: tuple[int, str | None]
) -> None:
    await lakes.table()
    answer = await lakes.call(method, path, document)
    assert answer.status == error[0], answer
    assert error[1] is None or answer.error == error


async def test_unavailable_external_catalog_is_reported_and_records_nothing(lakes: TwoLakes) -> None:
    await lakes.table()
    events = await lakes.events()

    def silent(request: HttpRequest) -> HttpResponse | None:
        raise Unavailable("no answer. reason=ConnectionRefusedError")

    lakes.wire.instead = silent
    for method, path, document in (("GET", TABLE, None), ("POST", TABLE, SET), ("GET", "/namespaces", None)):
        answer = await lakes.call(method, path, document)
        assert answer.error == (503, "ServiceUnavailableException")
        assert answer.headers["retry-after"]
        assert "far.example:9000" in answer.document["error"]["message"]
    assert await lakes.events() == events
    lakes.wire.instead = None
    assert (await lakes.call_ok("POST", TABLE, SET))["metadata"]["properties"]["k"] == "v"


async def test_undecided_change_is_resolved_by_repeating_its_key(lakes: TwoLakes) -> None:
    await lakes.table()
    key = str(uuid4())
    lakes.wire.loses_responses = True
    lost = await lakes.call("POST", TABLE, SET, idempotency_key=key)
    assert lost.error == (500, "CommitStateUnknownException")
    lakes.wire.loses_responses = False
    # The external catalog stored its response under the forwarded key.
    repeated = await lakes.call("POST", TABLE, SET, idempotency_key=key)
    assert repeated.document["metadata"]["properties"]["k"] == "v"
    assert (await lakes.events()).count("TableCommitted") == 1
    lakes.wire.take()
    third = await lakes.call("POST", TABLE, SET, idempotency_key=key)
    assert third.status == 200
    assert lakes.wire.take() == [("GET", f"/lake{TABLE}")]
    assert (await lakes.events()).count("TableCommitted") == 1


async def test_undecided_change_stays_undecided_without_remote_keys(lakes: TwoLakes) -> None:
    await lakes.table()

    def forgetful(request: HttpRequest) -> HttpResponse | None:
        if "/v1/config" in request.url:
            return HttpResponse(200, b'{"overrides": {"prefix": "lake"}}')
        return None

    lakes.wire.instead = forgetful
    lakes.expire_config()
    key = str(uuid4())
    lakes.wire.loses_responses = True
    assert (await lakes.call("POST", TABLE, SET, idempotency_key=key)).status == 500
    lakes.wire.loses_responses = False
    lakes.wire.take()
    # A repetition could conflict with the change itself: the client would delete files in use.
    repeated = await lakes.call("POST", TABLE, SET, idempotency_key=key)
    assert repeated.error == (500, "CommitStateUnknownException")
    assert lakes.wire.take() == []


@pytest.mark.parametrize(
    ("status", "read", "change"),
    [
        (500, (502, "BadGatewayException"), (500, "CommitStateUnknownException")),
        (502, (502, "BadGatewayException"), (500, "CommitStateUnknownException")),
        (504, (502, "BadGatewayException"), (500, "CommitStateUnknownException")),
        (503, (503, "ServiceUnavailableException"), (503, "ServiceUnavailableException")),
        (429, (429, "TooManyRequestsException"), (429, "TooManyRequestsException")),
        (403, (403, "ForbiddenException"), (403, "ForbiddenException")),
        # It concerns this server's credentials, not the caller's.
        (401, (502, "BadGatewayException"), (502, "BadGatewayException")),
        (307, (502, "BadGatewayException"), (500, "CommitStateUnknownException")),
        (400, (400, "BadRequestException"), (400, "BadRequestException")),
    ],
)
async def test_failures_of_the_external_catalog_are_distinguished(
    lakes: TwoLakes, status: int, read: tuple[int, str], change: tuple[int, str]
) -> None:
    await lakes.table()

    def failing(request: HttpRequest) -> HttpResponse | None:
        if "/v1/config" in request.url:
            return None
        words = json.dumps({"error": {"message": "as it says", "type": "AnyException", "code": status}})
        return HttpResponse(status, words.encode(), {"location": "http://169.254.169.254/"})

    lakes.wire.instead = failing
    assert (await lakes.call("GET", TABLE)).error == read
    lakes.wire.take()
    changed = await lakes.call("POST", TABLE, SET)
    assert changed.error == change
    # A change is sent once, whatever its outcome.
    assert lakes.wire.take() == [("POST", f"/lake{TABLE}")]
    if status not in (307, 401):
        assert "as it says" in changed.document["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"metadata": 7}'])
async def test_invalid_response_is_a_bad_gateway(lakes: TwoLakes, body: bytes) -> None:
    await lakes.table()

    def invalid(request: HttpRequest) -> HttpResponse | None:
        return None if "/v1/config" in request.url else HttpResponse(200, body)

    lakes.wire.instead = invalid
    committed = await lakes.call("POST", TABLE, SET)
    # The change was created: an invalid response does not undo it.
    assert committed.error == (500, "CommitStateUnknownException")
    if not body.startswith(b"{"):
        assert (await lakes.call("GET", TABLE)).error == (502, "BadGatewayException")
        assert (await lakes.call("GET", "/namespaces")).error == (502, "BadGatewayException")


async def test_level_with_the_remote_separator_is_refused(lakes: TwoLakes) -> None:
    def dotted(request: HttpRequest) -> HttpResponse | None:
        if "/v1/config" in request.url:
            return HttpResponse(200, b'{"overrides": {"prefix": "lake", "namespace-separator": "."}}')
        return None

    lakes.wire.instead = dotted
    refused: list[Answer] = [
        await lakes.call("GET", "/namespaces/a.b"),
        await lakes.call("POST", "/namespaces", {"namespace": ["a.b"]}),
        await lakes.call("GET", "/namespaces/a.b/tables/t"),
        await lakes.call(
            "POST", "/tables/rename", {**renamed("t", "u"), "source": {"namespace": ["a.b"], "name": "t"}}
        ),
    ]
    assert [answer.status for answer in refused] == [400] * 4
    assert lakes.wire.take() == []


async def test_duplicate_field_is_sent_once(lakes: TwoLakes) -> None:
    body = f'{{"name": "first", "schema": {json.dumps(SCHEMA)}, "name": "second"}}'.encode()
    created = await lakes.near.send("POST", f"/iceberg/v1/{CATALOG}/namespaces/ns/tables", body)
    assert created.status == 200
    sent = lakes.wire.requests[-1].body
    assert sent.count(b'"name":"second"') == 1
    assert b"first" not in sent
