"""Operation hooks of every family: listeners are called before, a veto changes nothing, events name the operation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.core.operations import Operation, OperationFamily
from lakebed.core.webhooks import new_secret
from lakebed.governance.listeners import HookConfig, HttpHook
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.wire.json.route_operations import OPERATIONS_WITHOUT_ROUTE
from tests.catalog.harness import VIEW_VERSION
from tests.governance.listeners.intents import RecordingListener
from tests.wire.iceberg.lake import SCHEMA, Answer, Lake, opened_lake

NS = "/lake/namespaces/ns"
MANAGEMENT = "/api/management/v1"
POLICIES = "/polaris/v1/lake/namespaces/ns/policies"
A_POLICY = {"name": "p", "type": "system.data-compaction", "content": '{"enable": true}'}
SET_PROPERTIES = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
ASSERT_CREATE = {"requirements": [{"type": "assert-create"}], "updates": []}


@pytest.fixture
def listener() -> RecordingListener:
    return RecordingListener()


@pytest.fixture
async def lake(tmp_path: Path, listener: RecordingListener) -> AsyncIterator[Lake]:
    """A lake with a table, a view, a policy, a user and roles."""
    async with opened_lake(tmp_path, listeners=[listener]) as lake:
        for name in ("t", "u"):
            assert (await lake.table(name)).status == 200
        view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
        assert (await lake.call("POST", f"{NS}/views", view)).status == 200
        for method, path, document in (
            ("POST", POLICIES, A_POLICY),
            ("POST", f"{MANAGEMENT}/principals", {"principal": {"name": "anna"}}),
            ("POST", f"{MANAGEMENT}/principal-roles", {"principalRole": {"name": "engineer"}}),
            ("POST", f"{MANAGEMENT}/catalogs/lake/catalog-roles", {"catalogRole": {"name": "reader"}}),
        ):
            response = await send(lake, method, path, document)
            assert response.status in (200, 201), response
        listener.intents.clear()
        yield lake


async def send(lake: Lake, method: str, path: str, document: object = None, **headers: str) -> Answer:
    """Send a request as root; catalog paths may omit their base."""
    if path.startswith(("/lake/", "/buckets")):
        path = "/iceberg/v1" + path
    body = b"" if document is None else json.dumps(document).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await lake.send(method, path, body, sent)


TABLES = [
    "warehouses",
    "namespaces",
    "entries",
    "policies",
    "policy_attachments",
    "principals",
    "principal_roles",
    "catalog_roles",
    "grants",
    "principal_role_members",
    "catalog_role_members",
    "client_credentials",
    "outbox",
    "objects",
    "idempotency_keys",
]


async def everything(lake: Lake) -> dict[str, Any]:
    """The rows of the catalog and of its governance in the metadata store."""
    return {table: await lake.store.meta.rows(f"SELECT * FROM {table}") for table in TABLES}


def transaction(*names: str) -> dict[str, Any]:
    return {"table-changes": [{"identifier": {"namespace": ["ns"], "name": name}, **SET_PROPERTIES} for name in names]}


GRANT = {"grant": {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_DATA"}}
ROLES = f"{MANAGEMENT}/catalogs/lake/catalog-roles"

CHANGES: list[tuple[Operation, str, str, object, str]] = [
    (Operation.CREATE_NAMESPACE, "POST", "/lake/namespaces", {"namespace": ["new", "er"]}, "lake/new.er"),
    (Operation.UPDATE_NAMESPACE_PROPERTIES, "POST", f"{NS}/properties", {"updates": {"a": "b"}}, "lake/ns"),
    (Operation.DROP_NAMESPACE, "DELETE", "/lake/namespaces/ns", None, "lake/ns"),
    (Operation.CREATE_TABLE, "POST", f"{NS}/tables", {"name": "new", "schema": SCHEMA}, "lake/ns/new"),
    (Operation.CREATE_TABLE, "POST", f"{NS}/tables/staged", ASSERT_CREATE, "lake/ns/staged"),
    (Operation.UPDATE_TABLE, "POST", f"{NS}/tables/t", SET_PROPERTIES, "lake/ns/t"),
    (Operation.UPDATE_TABLE, "PUT", f"{NS}/tables/t/protection", {"protected": True}, "lake/ns/t"),
    (Operation.DROP_TABLE, "DELETE", f"{NS}/tables/t", None, "lake/ns/t"),
    (Operation.DROP_TABLE, "POST", f"{NS}/tables/t/unregister", None, "lake/ns/t"),
    (
        Operation.RENAME_TABLE,
        "POST",
        "/lake/tables/rename",
        {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "x"}},
        "lake/ns/t",
    ),
    (Operation.COMMIT_TRANSACTION, "POST", "/lake/transactions/commit", transaction("t", "u"), "lake"),
    (Operation.UPDATE_TABLE, "POST", "/lake/transactions/commit", transaction("t", "u"), "lake/ns/u"),
    (
        Operation.CREATE_VIEW,
        "POST",
        f"{NS}/views",
        {"name": "w", "schema": SCHEMA, "view-version": VIEW_VERSION},
        "lake/ns/w",
    ),
    (
        Operation.REPLACE_VIEW,
        "POST",
        f"{NS}/views/v",
        {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]},
        "lake/ns/v",
    ),
    (Operation.DROP_VIEW, "DELETE", f"{NS}/views/v", None, "lake/ns/v"),
    (
        Operation.RENAME_VIEW,
        "POST",
        "/lake/views/rename",
        {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "x"}},
        "lake/ns/v",
    ),
    (Operation.CREATE_POLICY, "POST", POLICIES, {**A_POLICY, "name": "q"}, "lake/ns/q"),
    (
        Operation.UPDATE_POLICY,
        "PUT",
        f"{POLICIES}/p",
        {"current-policy-version": 0, "content": '{"enable": false}'},
        "lake/ns/p",
    ),
    (
        Operation.ATTACH_POLICY,
        "PUT",
        f"{POLICIES}/p/mappings",
        {"target": {"type": "table-like", "path": ["ns", "t"]}},
        "lake/ns/p",
    ),
    (Operation.DROP_POLICY, "DELETE", f"{POLICIES}/p", None, "lake/ns/p"),
    (Operation.CREATE_PRINCIPAL, "POST", f"{MANAGEMENT}/principals", {"principal": {"name": "bert"}}, "bert"),
    (
        Operation.UPDATE_PRINCIPAL,
        "PUT",
        f"{MANAGEMENT}/principals/anna",
        {"currentEntityVersion": 1, "properties": {"a": "b"}},
        "anna",
    ),
    (Operation.ROTATE_CREDENTIALS, "POST", f"{MANAGEMENT}/principals/anna/rotate", None, "anna"),
    (Operation.RESET_CREDENTIALS, "POST", f"{MANAGEMENT}/principals/anna/reset", None, "anna"),
    (Operation.DELETE_PRINCIPAL, "DELETE", f"{MANAGEMENT}/principals/anna", None, "anna"),
    (
        Operation.ASSIGN_PRINCIPAL_ROLE,
        "PUT",
        f"{MANAGEMENT}/principals/anna/principal-roles",
        {"principalRole": {"name": "engineer"}},
        "anna",
    ),
    (
        Operation.CREATE_PRINCIPAL_ROLE,
        "POST",
        f"{MANAGEMENT}/principal-roles",
        {"principalRole": {"name": "boss"}},
        "boss",
    ),
    (Operation.DELETE_PRINCIPAL_ROLE, "DELETE", f"{MANAGEMENT}/principal-roles/engineer", None, "engineer"),
    (
        Operation.ASSIGN_CATALOG_ROLE_TO_PRINCIPAL_ROLE,
        "PUT",
        f"{MANAGEMENT}/principal-roles/engineer/catalog-roles/lake",
        {"catalogRole": {"name": "reader"}},
        "lake/engineer",
    ),
    (Operation.CREATE_CATALOG_ROLE, "POST", ROLES, {"catalogRole": {"name": "writer"}}, "lake/writer"),
    (Operation.DELETE_CATALOG_ROLE, "DELETE", f"{ROLES}/reader", None, "lake/reader"),
    (Operation.ADD_GRANT_TO_CATALOG_ROLE, "PUT", f"{ROLES}/reader/grants", GRANT, "lake/reader"),
    (Operation.UPDATE_CATALOG, "POST", "/buckets/lake/properties", {"updates": {"a": "b"}}, "lake"),
    (Operation.CREATE_CATALOG, "PUT", "/buckets/lake", None, "lake"),
    (Operation.DELETE_CATALOG, "DELETE", "/lake", None, "lake"),
]

UNPREPARED: list[tuple[Operation, str, str, object, str]] = [
    (
        Operation.REGISTER_TABLE,
        "POST",
        f"{NS}/register",
        {"name": "r", "metadata-location": "s3://lake/m.json"},
        "lake/ns/r",
    ),
    (
        Operation.REGISTER_VIEW,
        "POST",
        f"{NS}/register-view",
        {"name": "r", "metadata-location": "s3://lake/m.json"},
        "lake/ns/r",
    ),
    (Operation.REFRESH_TABLE, "POST", f"{NS}/tables/t/catalog/external/sync", None, "lake/ns/t"),
    (
        Operation.DETACH_POLICY,
        "POST",
        f"{POLICIES}/p/mappings",
        {"target": {"type": "table-like", "path": ["ns", "t"]}},
        "lake/ns/p",
    ),
    (
        Operation.REVOKE_PRINCIPAL_ROLE,
        "DELETE",
        f"{MANAGEMENT}/principals/anna/principal-roles/engineer",
        None,
        "anna",
    ),
    (
        Operation.UPDATE_PRINCIPAL_ROLE,
        "PUT",
        f"{MANAGEMENT}/principal-roles/engineer",
        {"currentEntityVersion": 1, "properties": {}},
        "engineer",
    ),
    (
        Operation.REVOKE_CATALOG_ROLE_FROM_PRINCIPAL_ROLE,
        "DELETE",
        f"{MANAGEMENT}/principal-roles/engineer/catalog-roles/lake/reader",
        None,
        "lake/reader",
    ),
    (
        Operation.UPDATE_CATALOG_ROLE,
        "PUT",
        f"{ROLES}/reader",
        {"currentEntityVersion": 1, "properties": {}},
        "lake/reader",
    ),
    (Operation.REVOKE_GRANT_FROM_CATALOG_ROLE, "POST", f"{ROLES}/reader/grants", GRANT, "lake/reader"),
    (Operation.ATTEMPT_TASK, "POST", "/lakebed/v1/tasks/claim", {"worker": "w", "lease-seconds": 60}, ""),
]
"""Changes whose resources do not exist here: they are vetoed before the lookup."""

VETOED = [*CHANGES, *UNPREPARED]
IDS = [f"{operation}-{path.rpartition('/')[2]}" for operation, _, path, *_ in VETOED]


def test_every_change_of_every_family_is_tested() -> None:
    tested_elsewhere = {
        one for one in Operation if one.family in (OperationFamily.NOTIFICATION, OperationFamily.GENERIC_TABLE)
    }
    changes = {one for one in Operation if not one.only_reads}
    assert (
        changes - OPERATIONS_WITHOUT_ROUTE - tested_elsewhere
        == {operation for operation, *_ in VETOED} - tested_elsewhere
    )


@pytest.mark.parametrize(("operation", "method", "path", "document", "subject"), VETOED, ids=IDS)
async def test_veto_is_returned_with_its_reason_and_changes_nothing(
    lake: Lake,
    listener: RecordingListener,
    operation: Operation,
    method: str,
    path: str,
    document: object,
    subject: str,
) -> None:
    listener.vetoes = {operation.value} if operation.value != "UPDATE_TABLE" else {subject}
    before = await everything(lake)
    response = await send(lake, method, path, document)
    assert response.status == 403, response
    assert f"vetoed by guard: {subject or 'it'} is frozen" in response.body.decode()
    if path != "/lake":
        assert response.error == (403, "ForbiddenException")
    assert await everything(lake) == before
    assert (operation.value, subject) in listener.seen


DONE = [change for change in CHANGES if change[0] not in (Operation.DROP_NAMESPACE, Operation.DELETE_CATALOG)]


@pytest.mark.parametrize(
    ("operation", "method", "path", "document", "subject"),
    [change for change in DONE if "staged" not in change[2] and change[2] != "/buckets/lake"],
)
async def test_events_of_a_permitted_change_name_the_operation(
    lake: Lake,
    listener: RecordingListener,
    operation: Operation,
    method: str,
    path: str,
    document: object,
    subject: str,
) -> None:
    last = await lake.store.object_context.outbox.last_seq(lake.store.meta)
    response = await send(lake, method, path, document)
    assert response.status < 300, response
    assert (operation.value, subject) in listener.seen
    entries = await lake.store.object_context.outbox.read_after(lake.store.meta, last, 100)
    # The event of the metadata file, an object, names the operation too.
    assert entries
    expected = "COMMIT_TRANSACTION" if "transactions" in path else operation.value
    assert {entry.event.operation for entry in entries} == {expected}


async def test_vetoed_multi_table_transaction_changes_no_table(lake: Lake, listener: RecordingListener) -> None:
    listener.vetoes = {"lake/ns/u"}
    before = await everything(lake)
    response = await send(lake, "POST", "/lake/transactions/commit", transaction("t", "u"))
    assert response.error == (403, "ForbiddenException")
    assert "lake/ns/u is frozen" in response.document["error"]["message"]
    assert await everything(lake) == before
    assert listener.seen == [
        ("COMMIT_TRANSACTION", "lake"),
        ("UPDATE_TABLE", "lake/ns/t"),
        ("UPDATE_TABLE", "lake/ns/u"),
    ]
    listener.vetoes.clear()
    assert (await send(lake, "POST", "/lake/transactions/commit", transaction("t", "u"))).status == 204


async def test_veto_of_table_creation_applies_to_commits_that_create_tables(
    lake: Lake, listener: RecordingListener
) -> None:
    listener.vetoes = {"CREATE_TABLE"}
    change = {"identifier": {"namespace": ["ns"], "name": "x"}, **ASSERT_CREATE}
    response = await send(lake, "POST", "/lake/transactions/commit", {"table-changes": [change]})
    assert response.error == (403, "ForbiddenException")


async def test_anonymous_caller_does_not_learn_the_reason_of_a_veto(lake: Lake, listener: RecordingListener) -> None:
    listener.vetoes = {"DELETE_CATALOG"}
    response = await lake.send("DELETE", "/lake", keys=None)
    assert response.status == 403
    assert b"frozen" not in response.body


async def test_veto_of_credential_vending_applies_to_loading_tables(lake: Lake, listener: RecordingListener) -> None:
    listener.vetoes = {"LOAD_CREDENTIALS"}
    vended = {"x_iceberg_access_delegation": "vended-credentials"}
    assert (await send(lake, "GET", f"{NS}/tables/t", **vended)).status == 403
    assert (await send(lake, "GET", f"{NS}/tables/t/credentials")).status == 403
    assert (await send(lake, "GET", f"{NS}/tables/t")).status == 200


async def test_intents_of_renaming_and_restoring_have_both_names(lake: Lake, listener: RecordingListener) -> None:
    document = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "x"}}
    assert (await send(lake, "POST", "/lake/tables/rename", document)).status == 204
    assert listener.intents[-1].facts == {"destination-namespace": "ns", "destination-name": "x"}
    assert (await send(lake, "DELETE", f"{NS}/views/v")).status == 204
    listener.vetoes = {"REGISTER_VIEW"}
    response = await send(lake, "POST", "/lake/dropped/restore", {"namespace": ["ns"], "name": "v"})
    assert response.error == (403, "ForbiddenException")


async def test_intent_of_a_grant_has_privilege_and_target(lake: Lake, listener: RecordingListener) -> None:
    assert (await send(lake, "PUT", f"{ROLES}/reader/grants", GRANT)).status == 201
    assert listener.intents[-1].facts == {"privilege": "TABLE_READ_DATA", "target-type": "table", "target": "ns.t"}


async def test_intents_omit_documents_that_may_contain_secrets(lake: Lake, listener: RecordingListener) -> None:
    secret = {"clientSecret": "a-secret-that-the-client-chose-1234"}
    await send(lake, "POST", f"{MANAGEMENT}/principals/anna/reset", secret)
    assert listener.intents[-1].document == b""
    await send(lake, "POST", f"{NS}/tables/t", SET_PROPERTIES)
    assert json.loads(listener.intents[-1].document) == SET_PROPERTIES


async def test_listeners_can_veto_reads(lake: Lake, listener: RecordingListener) -> None:
    for operation, path in (
        (Operation.GET_CONFIG, "/iceberg/v1/config?warehouse=lake"),
        (Operation.LIST_NAMESPACES, "/lake/namespaces"),
        (Operation.LOAD_NAMESPACE_METADATA, NS),
        (Operation.LIST_TABLES, f"{NS}/tables"),
        (Operation.LOAD_TABLE, f"{NS}/tables/t"),
        (Operation.LIST_VIEWS, f"{NS}/views"),
        (Operation.LOAD_VIEW, f"{NS}/views/v"),
        (Operation.LIST_POLICIES, POLICIES),
        (Operation.LOAD_POLICY, f"{POLICIES}/p"),
        (Operation.GET_APPLICABLE_POLICIES, "/polaris/v1/lake/applicable-policies?namespace=ns&target-name=t"),
        (Operation.LIST_CATALOGS, f"{MANAGEMENT}/catalogs"),
        (Operation.GET_CATALOG, f"{MANAGEMENT}/catalogs/lake"),
        (Operation.LIST_PRINCIPALS, f"{MANAGEMENT}/principals"),
        (Operation.GET_PRINCIPAL, f"{MANAGEMENT}/principals/anna"),
        (Operation.LIST_ASSIGNED_PRINCIPAL_ROLES, f"{MANAGEMENT}/principals/anna/principal-roles"),
        (Operation.LIST_PRINCIPAL_ROLES, f"{MANAGEMENT}/principal-roles"),
        (Operation.GET_PRINCIPAL_ROLE, f"{MANAGEMENT}/principal-roles/engineer"),
        (Operation.LIST_CATALOG_ROLES, ROLES),
        (Operation.GET_CATALOG_ROLE, f"{ROLES}/reader"),
        (Operation.LIST_GRANTS_FOR_CATALOG_ROLE, f"{ROLES}/reader/grants"),
    ):
        listener.vetoes.clear()
        assert (await send(lake, "GET", path)).status == 200, path
        listener.vetoes = {operation.value}
        response = await send(lake, "GET", path)
        assert response.error == (403, "ForbiddenException"), path


async def test_invalid_request_fails_before_listeners_are_called(lake: Lake, listener: RecordingListener) -> None:
    for path, document in (
        (f"{NS}/tables", {"schema": SCHEMA}),
        ("/lake/namespaces", {"namespace": []}),
        ("/lake/transactions/commit", {"table-changes": [{}]}),
        ("/lake/transactions/commit", transaction(*["t"] * 1025)),
        ("/lake/tables/rename", {"source": "t"}),
        (f"{MANAGEMENT}/principals", {"name": "anna"}),
    ):
        response = await send(lake, "POST", path, document)
        assert response.status == 400, (path, response)
    assert listener.intents == []


async def test_stored_response_of_an_idempotency_key_is_returned_without_calling_listeners(
    lake: Lake, listener: RecordingListener
) -> None:
    key = {"idempotency_key": "0198c5a0-0000-7000-8000-000000000001"}
    first = await send(lake, "POST", "/lake/namespaces", {"namespace": ["once"]}, **key)
    listener.vetoes = {"CREATE_NAMESPACE"}
    again = await send(lake, "POST", "/lake/namespaces", {"namespace": ["once"]}, **key)
    assert (first.status, again.status) == (200, 200)
    assert [seen for seen in listener.seen if seen[0] == "CREATE_NAMESPACE"] == [("CREATE_NAMESPACE", "lake/once")]


async def test_veto_is_not_stored_for_the_idempotency_key(lake: Lake, listener: RecordingListener) -> None:
    key = {"idempotency_key": "0198c5a0-0000-7000-8000-000000000002"}
    listener.vetoes = {"CREATE_NAMESPACE"}
    assert (await send(lake, "POST", "/lake/namespaces", {"namespace": ["later"]}, **key)).status == 403
    listener.vetoes.clear()
    assert (await send(lake, "POST", "/lake/namespaces", {"namespace": ["later"]}, **key)).status == 200


async def test_reported_reads_write_events(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, reported_reads=[Operation.LOAD_TABLE]) as lake:
        await lake.table()
        last = await lake.store.object_context.outbox.last_seq(lake.store.meta)
        assert (await lake.call("GET", f"{NS}/tables/t")).status == 200
        assert (await lake.call("GET", f"{NS}/tables/none")).status == 404
        assert (await lake.call("GET", NS)).status == 200
        (entry,) = await lake.store.object_context.outbox.read_after(lake.store.meta, last, 10)
        assert (entry.event.kind, entry.event.type) == ("AFTER_LOAD_TABLE", "AFTER_LOAD_TABLE")
        assert entry.event.subject == "lake/ns/t"
        assert msgspec.msgpack.decode(entry.event.payload)["principal"] == "root"


async def test_credentials_vended_with_a_table_write_load_credentials_events(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, reported_reads=[Operation.LOAD_CREDENTIALS]) as lake:
        await lake.table()
        outbox, meta = lake.store.object_context.outbox, lake.store.meta
        last = await outbox.last_seq(meta)
        assert (await lake.call("GET", f"{NS}/tables/t")).status == 200
        assert await outbox.read_after(meta, last, 10) == []
        assert (await lake.call("GET", f"{NS}/tables/t", access="vended-credentials")).status == 200
        assert (await lake.call("GET", f"{NS}/tables/t/credentials")).status == 200
        entries = await outbox.read_after(meta, last, 10)
        assert [(entry.event.kind, entry.event.subject) for entry in entries] == [
            ("AFTER_LOAD_CREDENTIALS", "lake/ns/t"),
            ("AFTER_LOAD_CREDENTIALS", "lake/ns/t"),
        ]


async def test_operation_is_unavailable_while_its_hook_fails(tmp_path: Path) -> None:
    requests: list[HttpRequest] = []
    responses = [HttpResponse(502, b""), HttpResponse(200, b'{"allow": true}')]

    async def http(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return responses[len(requests) - 1]

    policy = HookConfig("https://guard.example", new_secret(), frozenset({Operation.DROP_TABLE}))
    hook = HttpHook("guard", policy, http, clock=None)  # type: ignore[arg-type]  # set below, once the lake exists
    async with opened_lake(tmp_path, listeners=[hook]) as lake:
        hook._clock = lake.clock
        await lake.table()
        failed = await lake.call("DELETE", f"{NS}/tables/t")
        assert failed.error == (503, "ServiceUnavailableException")
        assert (await lake.call("HEAD", f"{NS}/tables/t")).status == 204
        assert (await lake.call("DELETE", f"{NS}/tables/t")).status == 204
        assert len(requests) == 2
