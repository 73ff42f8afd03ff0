"""Requests for federated catalogs are authorized on this server, regardless of the connection's permissions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.clients.boto import Keys

from .lake import SCHEMA, allow
from .test_federated import SET, TABLE, renamed
from .two_lakes import CATALOG, TwoLakes, two_lakes

VENDED = "vended-credentials"
OTHER = "/namespaces/ns/tables/other"


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path) as both:
        for name in ("t", "other"):
            assert (await both.table(name)).status == 200
        await both.call_ok(
            "POST", "/namespaces/ns/views", {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
        )
        both.wire.take()
        yield both


def on_table(privilege: str, name: str = "t") -> dict[str, Any]:
    return {"type": "table", "namespace": ["ns"], "tableName": name, "privilege": privilege}


def on_namespace(privilege: str, *levels: str) -> dict[str, Any]:
    return {"type": "namespace", "namespace": list(levels or ("ns",)), "privilege": privilege}


def on_catalog(privilege: str) -> dict[str, Any]:
    return {"type": "catalog", "privilege": privilege}


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("GET", "/namespaces", None),
        ("POST", "/namespaces", {"namespace": ["x"]}),
        ("GET", "/namespaces/ns", None),
        ("HEAD", "/namespaces/ns", None),
        ("DELETE", "/namespaces/ns", None),
        ("POST", "/namespaces/ns/properties", {"updates": {"k": "v"}}),
        ("GET", "/namespaces/ns/tables", None),
        ("POST", "/namespaces/ns/tables", {"name": "x", "schema": SCHEMA}),
        ("POST", "/namespaces/ns/tables", {"name": "x", "schema": SCHEMA, "stage-create": True}),
        ("GET", TABLE, None),
        ("HEAD", TABLE, None),
        ("POST", TABLE, SET),
        ("POST", TABLE, {**SET, "requirements": [{"type": "assert-create"}]}),
        ("DELETE", TABLE, None),
        ("DELETE", f"{TABLE}?purgeRequested=true", None),
        ("GET", f"{TABLE}/credentials", None),
        ("POST", f"{TABLE}/metrics", {"report-type": "scan-report", "table-name": "t"}),
        ("POST", "/tables/rename", renamed("t", "u")),
        ("POST", "/namespaces/ns/register", {"name": "x", "metadata-location": "s3://lake/x"}),
        (
            "POST",
            "/transactions/commit",
            {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **SET}]},
        ),
        ("GET", "/namespaces/ns/views", None),
        ("POST", "/namespaces/ns/views", {"name": "x", "schema": SCHEMA, "view-version": VIEW_VERSION}),
        ("GET", "/namespaces/ns/views/v", None),
        ("HEAD", "/namespaces/ns/views/v", None),
        ("POST", "/namespaces/ns/views/v", {"updates": []}),
        ("DELETE", "/namespaces/ns/views/v", None),
        ("POST", "/views/rename", renamed("v", "w")),
        ("POST", "/namespaces/ns/register-view", {"name": "x", "metadata-location": "s3://lake/x"}),
    ],
)
async def test_caller_without_permission_is_refused_before_forwarding(
    lakes: TwoLakes, method: str, path: str, document: object
) -> None:
    outsider = await lakes.near.user("outsider")
    other_member = await lakes.member("elsewhere", on_catalog("CATALOG_READ_PROPERTIES"))
    lakes.wire.take()
    for keys in (outsider, other_member):
        answer = await lakes.call(method, path, document, keys=keys)
        assert answer.status == 403, answer
    assert lakes.wire.take() == []


async def test_grants_on_the_catalog_apply_to_its_content(lakes: TwoLakes) -> None:
    admin = await lakes.member("admin", on_catalog("CATALOG_MANAGE_METADATA"))
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["x"]}, keys=admin)
    await lakes.call_ok("POST", TABLE, SET, keys=admin)
    await lakes.call_ok("POST", "/tables/rename", renamed("t", "u"), keys=admin)
    reader = await lakes.member("reader", on_catalog("TABLE_READ_PROPERTIES"))
    assert (await lakes.call("GET", OTHER, keys=reader)).status == 200
    assert (await lakes.call("POST", OTHER, SET, keys=reader)).status == 403


async def test_grant_on_a_table_applies_to_that_table_only(lakes: TwoLakes) -> None:
    keys = await lakes.member("one", on_table("TABLE_FULL_METADATA"))
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 200
    assert (await lakes.call("POST", TABLE, SET, keys=keys)).status == 200
    assert (await lakes.call("GET", OTHER, keys=keys)).status == 403
    assert (await lakes.call("POST", OTHER, SET, keys=keys)).status == 403
    changes = [{"identifier": {"namespace": ["ns"], "name": name}, **SET} for name in ("t", "other")]
    assert (await lakes.call("POST", "/transactions/commit", {"table-changes": changes}, keys=keys)).status == 403


async def test_commits_require_the_privileges_of_their_updates(lakes: TwoLakes) -> None:
    keys = await lakes.member("setter", on_table("TABLE_SET_PROPERTIES"))
    assert (await lakes.call("POST", TABLE, SET, keys=keys)).status == 200
    removing = {"requirements": [], "updates": [{"action": "remove-properties", "removals": ["k"]}]}
    assert (await lakes.call("POST", TABLE, removing, keys=keys)).status == 403
    both = {"requirements": [], "updates": [*SET["updates"], *removing["updates"]]}
    assert (await lakes.call("POST", TABLE, both, keys=keys)).status == 403


async def test_grant_on_a_namespace_applies_to_its_content_only(lakes: TwoLakes) -> None:
    for levels in (["ns10"], ["ns", "inner"]):
        await lakes.call_ok("POST", "/namespaces", {"namespace": levels})
        path = "/namespaces/" + "%1F".join(levels) + "/tables"
        await lakes.call_ok("POST", path, {"name": "t", "schema": SCHEMA})
    keys = await lakes.member("one", on_namespace("TABLE_READ_PROPERTIES"))
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 200
    assert (await lakes.call("GET", "/namespaces/ns%1Finner/tables/t", keys=keys)).status == 200
    assert (await lakes.call("GET", "/namespaces/ns10/tables/t", keys=keys)).status == 403


async def test_lists_contain_granted_names(lakes: TwoLakes) -> None:
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["hidden"]})
    keys = await lakes.member(
        "one",
        on_table("TABLE_LIST"),
        on_namespace("NAMESPACE_LIST"),
        {"type": "view", "namespace": ["ns"], "viewName": "v", "privilege": "VIEW_LIST"},
    )
    assert (await lakes.call_ok("GET", "/namespaces/ns/tables", keys=keys))["identifiers"] == [
        {"namespace": ["ns"], "name": "t"}
    ]
    assert (await lakes.call_ok("GET", "/namespaces/ns/views", keys=keys))["identifiers"] == [
        {"namespace": ["ns"], "name": "v"}
    ]
    assert (await lakes.call_ok("GET", "/namespaces", keys=keys))["namespaces"] == [["ns"]]
    assert (await lakes.call("GET", "/namespaces/hidden/tables", keys=keys)).status == 403
    # A table that was dropped in the external catalog is not listed, although it has a synthetic entity here.
    await lakes.far.call("DELETE", f"/lake{TABLE}")
    assert (await lakes.call_ok("GET", "/namespaces/ns/tables", keys=keys))["identifiers"] == []


async def test_grants_require_an_existing_name(lakes: TwoLakes) -> None:
    management = lakes.management
    roles = f"/catalogs/{CATALOG}/catalog-roles"
    await management.call_ok("POST", roles, {"catalogRole": {"name": "r"}})
    for grant, kind in (
        (on_table("TABLE_LIST", "ghost"), "NoSuchTableException"),
        (on_namespace("TABLE_LIST", "ghost"), "NoSuchNamespaceException"),
        (on_namespace("TABLE_LIST", "ns", "ghost"), "NoSuchNamespaceException"),
        ({"type": "view", "namespace": ["ns"], "viewName": "t", "privilege": "VIEW_LIST"}, "NoSuchViewException"),
    ):
        answer = await management.call("PUT", f"{roles}/r/grants", {"grant": grant})
        assert answer.error == (404, kind)
    assert (await management.call_ok("GET", f"{roles}/r/grants"))["grants"] == []
    await management.call_ok("PUT", f"{roles}/r/grants", {"grant": on_table("TABLE_LIST")})
    assert (await management.call_ok("GET", f"{roles}/r/grants"))["grants"] == [on_table("TABLE_LIST")]
    await management.call_ok("POST", f"{roles}/r/grants", {"grant": on_table("TABLE_LIST")})
    assert (await management.call_ok("GET", f"{roles}/r/grants"))["grants"] == []


async def test_unauthorized_grant_sends_no_request(lakes: TwoLakes) -> None:
    outsider = await lakes.near.user("outsider")
    await lakes.management.call_ok("POST", f"/catalogs/{CATALOG}/catalog-roles", {"catalogRole": {"name": "r"}})
    lakes.wire.take()
    path = f"/catalogs/{CATALOG}/catalog-roles/r/grants"
    answer = await lakes.management.call("PUT", path, {"grant": on_table("TABLE_LIST")}, keys=outsider)
    assert answer.status == 403
    assert lakes.wire.take() == []


async def test_renamed_table_keeps_its_grants(lakes: TwoLakes) -> None:
    keys = await lakes.member("one", on_table("TABLE_READ_PROPERTIES"))
    await lakes.call_ok("POST", "/tables/rename", renamed("t", "u"))
    assert (await lakes.call("GET", "/namespaces/ns/tables/u", keys=keys)).status == 200
    await lakes.table("t")
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 403


@pytest.mark.parametrize("how", ["dropped", "dropped in the external catalog"])
async def test_recreated_name_has_no_grants(lakes: TwoLakes, how: str) -> None:
    keys = await lakes.member("one", on_table("TABLE_READ_PROPERTIES"))
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 200
    if how == "dropped":
        await lakes.call_ok("DELETE", TABLE)
    else:
        await lakes.far.call("DELETE", f"/lake{TABLE}")
    await lakes.table("t")
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 403


async def test_dropping_a_namespace_removes_its_grants(lakes: TwoLakes) -> None:
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["x"]})
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["x", "y"]})
    keys = await lakes.member("one", on_namespace("NAMESPACE_READ_PROPERTIES", "x", "y"))
    assert (await lakes.call("GET", "/namespaces/x%1Fy", keys=keys)).status == 200
    await lakes.far.call("DELETE", "/lake/namespaces/x%1Fy")
    await lakes.call_ok("DELETE", "/namespaces/x")
    for levels in (["x"], ["x", "y"]):
        await lakes.call_ok("POST", "/namespaces", {"namespace": levels})
    assert (await lakes.call("GET", "/namespaces/x%1Fy", keys=keys)).status == 403


async def test_registering_requires_permission_to_read_all_data(lakes: TwoLakes) -> None:
    location = (await lakes.call_ok("GET", TABLE))["metadata-location"]
    await lakes.call_ok("DELETE", TABLE)
    document = {"name": "mine", "metadata-location": location}
    maker = await lakes.member("maker", on_namespace("TABLE_CREATE"), on_namespace("TABLE_READ_DATA"))
    assert (await lakes.call("POST", "/namespaces/ns/register", document, keys=maker)).status == 403
    admin = await lakes.member("admin", on_namespace("TABLE_CREATE"), on_catalog("TABLE_READ_DATA"))
    assert (await lakes.call("POST", "/namespaces/ns/register", document, keys=admin)).status == 200


async def test_identity_policies_are_evaluated(lakes: TwoLakes) -> None:
    condition = {"StringEquals": {"s3tables:namespace": "ns", "s3tables:tableName": "t"}}
    keys = await lakes.near.user("policed", {**allow("s3tables:GetTableMetadataLocation"), "Condition": condition})
    assert (await lakes.call("GET", TABLE, keys=keys)).status == 200
    assert (await lakes.call("GET", OTHER, keys=keys)).status == 403
    patterned = await lakes.near.user(
        "patterned",
        allow("s3tables:GetTableMetadataLocation", resource=f"arn:aws:s3tables:*:*:bucket/{CATALOG}/table/*"),
    )
    assert (await lakes.call("GET", TABLE, keys=patterned)).status == 200


# -- vended credentials ------------------------------------------------------------------------------------------------


async def _members(lakes: TwoLakes) -> tuple[Keys, Keys, Keys]:
    writer = await lakes.member("writer", on_table("TABLE_WRITE_DATA"))
    reader = await lakes.member("reader", on_table("TABLE_READ_DATA"))
    neither = await lakes.member("neither", on_table("TABLE_FULL_METADATA"))
    return writer, reader, neither


async def test_credentials_are_not_vended_where_delegation_is_off(lakes: TwoLakes) -> None:
    writer, _, _ = await _members(lakes)
    catalog = await lakes.management.call_ok("GET", f"/catalogs/{CATALOG}")
    change = {"currentEntityVersion": catalog["entityVersion"], "properties": {"access-delegation": "none"}}
    await lakes.management.call_ok("PUT", f"/catalogs/{CATALOG}", change)
    for access in (VENDED, "vended-credentials,remote-signing"):
        loaded = await lakes.call("GET", TABLE, keys=writer, access=access)
        assert loaded.status == 200
        assert "storage-credentials" not in loaded.document
        assert "s3.secret-access-key" not in loaded.document["config"]
    assert (await lakes.call("GET", f"{TABLE}/credentials", keys=writer)).document == {"storage-credentials": []}


async def test_credentials_are_vended_to_writers(lakes: TwoLakes) -> None:
    writer, reader, neither = await _members(lakes)
    loaded = await lakes.call("GET", TABLE, keys=writer, access=VENDED)
    assert loaded.headers["cache-control"] == "no-store, private"
    (credential,) = loaded.document["storage-credentials"]
    assert credential["prefix"].startswith("s3://lake/")
    assert "s3.secret-access-key" in loaded.document["config"]
    assert loaded.document["config"]["s3.endpoint"] == "http://far.example:9000"
    endpoint = f"v1/{CATALOG}/namespaces/ns/tables/t/credentials"
    assert loaded.document["config"]["client.refresh-credentials-endpoint"] == endpoint
    renewed = await lakes.call("GET", f"{TABLE}/credentials", keys=writer)
    assert renewed.document["storage-credentials"][0]["config"]["client.refresh-credentials-endpoint"] == endpoint

    lakes.wire.requests.clear()
    loaded = await lakes.call("GET", TABLE, keys=reader, access=VENDED)
    assert loaded.status == 200
    assert "storage-credentials" not in loaded.document
    assert set(loaded.document["config"]) == {"s3.endpoint", "s3.path-style-access", "client.region"}
    assert all("x-iceberg-access-delegation" not in request.headers for request in lakes.wire.requests)
    assert (await lakes.call("GET", f"{TABLE}/credentials", keys=reader)).status == 403

    assert (await lakes.call("GET", TABLE, keys=neither, access=VENDED)).status == 403
    assert (await lakes.call("GET", TABLE, keys=neither)).status == 200
    assert (await lakes.call("GET", f"{TABLE}/credentials", keys=neither)).status == 403


@pytest.mark.parametrize(
    ("credentials_for", "writer_gets", "reader_gets"), [("readers", True, True), ("nobody", False, False)]
)
async def test_connection_selects_recipients_of_credentials(
    lakes: TwoLakes, credentials_for: str, writer_gets: bool, reader_gets: bool
) -> None:
    writer, reader, _ = await _members(lakes)
    assert (await lakes.connect(properties={"lakebed.credentials-for": credentials_for})).status == 200
    for keys, gets in ((writer, writer_gets), (reader, reader_gets)):
        loaded = await lakes.call("GET", TABLE, keys=keys, access=VENDED)
        assert ("storage-credentials" in loaded.document) is gets
        assert ("s3.secret-access-key" in loaded.document["config"]) is gets
        assert ((await lakes.call("GET", f"{TABLE}/credentials", keys=keys)).status == 200) is gets


async def test_created_table_has_credentials_for_writers(lakes: TwoLakes) -> None:
    maker = await lakes.member("maker", on_namespace("TABLE_CREATE"))
    created = await lakes.table("bare", keys=maker, access=VENDED)
    assert created.status == 200
    assert "storage-credentials" not in created.document
    writer = await lakes.member("writer", on_namespace("TABLE_CREATE"), on_namespace("TABLE_WRITE_DATA"))
    for more in ({}, {"stage_create": True}):
        created = await lakes.table(f"mine{len(more)}", keys=writer, access=VENDED, **more)
        assert created.document["storage-credentials"]
    # The renewal endpoint of a staged table keeps the external catalog's query.
    endpoint = created.document["config"]["client.refresh-credentials-endpoint"]
    assert endpoint.startswith(f"v1/{CATALOG}/namespaces/ns/tables/mine1/credentials?whereabouts=")
    renewed = await lakes.near.send("GET", f"/iceberg/{endpoint}", keys=writer)
    assert renewed.document["storage-credentials"]


async def test_remote_signing_is_not_forwarded(lakes: TwoLakes) -> None:
    loaded = await lakes.call("GET", TABLE, access="remote-signing")
    assert loaded.status == 200
    assert not any("sign" in name for name in loaded.document["config"])
