from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, SCHEMA, Answer, allow, keys_in

from .policy_lake import BASES, PolicyLake

ALL = "/namespaces/ns/generic-tables"
ONE = f"{ALL}/g"
LOCATION = "s3://lake/delta/g"
DELEGATION = "vended-credentials"


async def create(
    policies: PolicyLake, name: str = "g", *, keys: Keys = ROOT_KEYS, access: str | None = None, **more: Any
) -> Answer:
    document = {"name": name, "format": "delta", **{key.replace("_", "-"): value for key, value in more.items()}}
    return await policies.call("POST", ALL, document, keys=keys, **delegation(access))


def delegation(access: str | None) -> dict[str, Any]:
    return {} if access is None else {"Polaris_Generic_Table_Access_Delegation": access}


@pytest.mark.parametrize("base", BASES)
async def test_generic_table_is_created_returned_and_dropped_at_every_base(policies: PolicyLake, base: str) -> None:
    table = {"name": "g", "format": "delta", "base-location": LOCATION, "doc": "others'", "properties": {"a": "1"}}
    created = await policies.call("POST", ALL, table, base=base)
    assert (created.status, created.document) == (200, {"table": table})
    assert (await policies.call("GET", ONE, base=base)).document == {"table": table}
    listed = await policies.call("GET", ALL, base=base)
    assert listed.document == {"identifiers": [{"namespace": ["ns"], "name": "g"}], "next-page-token": None}
    dropped = await policies.call("DELETE", ONE, base=base)
    assert (dropped.status, dropped.body) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (await policies.call(method, ONE, base=base)).error == (404, "NoSuchTableException")


async def test_absent_fields_are_not_returned(policies: PolicyLake) -> None:
    expected = {"table": {"name": "g", "format": "delta", "properties": {}}}
    assert (await create(policies)).document == expected
    assert (await policies.call("GET", ONE)).document == expected


async def test_names_are_shared_with_tables_and_views(policies: PolicyLake) -> None:
    await create(policies)
    for name in ("g", "t", "v"):
        assert (await create(policies, name)).error == (409, "AlreadyExistsException")
    assert (await policies.lake.table("g")).error == (409, "AlreadyExistsException")
    view = {"name": "g", "schema": SCHEMA, "view-version": VIEW_VERSION}
    refused = await policies.lake.call("POST", "/lake/namespaces/ns/views", view)
    assert refused.error == (409, "AlreadyExistsException")
    assert (await policies.lake.call("GET", "/lake/namespaces/ns/tables/g")).error == (404, "NoSuchTableException")
    assert (await policies.call("GET", f"{ALL}/t")).error == (404, "NoSuchTableException")
    listed = (await policies.lake.call("GET", "/lake/namespaces/ns/tables")).document["identifiers"]
    assert [one["name"] for one in listed] == ["t"]


async def test_generic_tables_are_paged(policies: PolicyLake) -> None:
    for number in range(5):
        await create(policies, f"g{number}")
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = (await policies.call("GET", f"{ALL}?pageSize=2&pageToken={token}")).document
        assert len(page["identifiers"]) <= 2
        seen += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
        if len(seen) == 2:
            # Tables created or dropped between pages do not shift later pages.
            await policies.call("DELETE", f"{ALL}/g1")
            await create(policies, "g00")
    assert seen == ["g0", "g1", "g2", "g3", "g4"]
    assert len((await policies.call("GET", ALL)).document["identifiers"]) == 5
    foreign = (await policies.call("GET", f"{ALL}?pageSize=2&pageToken=")).document["next-page-token"]
    tables = await policies.lake.call("GET", f"/lake/namespaces/ns/tables?pageToken={foreign}")
    assert tables.error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "document",
    [
        {"format": "delta"},
        {"name": "g"},
        {"name": "", "format": "delta"},
        {"name": "g", "format": ""},
        {"name": "g", "format": 5},
        {"name": "g", "format": "delta", "properties": {"a": 1}},
        {"name": "g", "format": "delta", "base-location": "s3://other/g"},
        {"name": "g", "format": "delta", "base-location": "s3://lake/.lakebed/g"},
        {"name": "g", "format": "delta", "base-location": "s3://lake/tables/../x"},
    ],
)
async def test_invalid_generic_tables_are_refused(policies: PolicyLake, document: Any) -> None:
    assert (await policies.call("POST", ALL, document)).error == (400, "BadRequestException")
    assert (await policies.call("GET", ALL)).document["identifiers"] == []


async def test_taken_locations_and_missing_namespaces_are_refused(policies: PolicyLake) -> None:
    await create(policies, base_location=LOCATION)
    for location in (LOCATION, f"{LOCATION}/in", "s3://lake/delta"):
        assert (await create(policies, "h", base_location=location)).error == (400, "BadRequestException")
    missing_namespace = "/namespaces/none/generic-tables"
    document = {"name": "g", "format": "delta"}
    assert (await policies.call("POST", missing_namespace, document)).error == (404, "NoSuchNamespaceException")
    assert (await policies.call("GET", missing_namespace)).error == (404, "NoSuchNamespaceException")
    assert (await policies.call("GET", f"{missing_namespace}/g")).error == (404, "NoSuchTableException")
    missing = await policies.lake.send("GET", "/polaris/v1/none/namespaces/ns/generic-tables")
    assert missing.error == (404, "NoSuchWarehouseException")


async def test_vended_credentials_cover_only_the_base_location(policies: PolicyLake) -> None:
    created = await create(policies, base_location=LOCATION, access=DELEGATION)
    [access] = created.document["storage-access-configs"]
    assert access["prefix"] == "s3://lake/delta/g/"
    assert access["config"]["s3.client.region"] == access["config"]["client.region"]
    keys = keys_in(access["config"])
    assert (await policies.lake.send("PUT", "/lake/delta/g/part-0", b"x", keys=keys)).status == 200
    assert (await policies.lake.send("PUT", "/lake/delta/g10/part-0", b"x", keys=keys)).status == 403
    loaded = await policies.call("GET", ONE, **delegation(DELEGATION))
    assert loaded.headers["cache-control"] == "no-store, private"
    fresh = keys_in(loaded.document["storage-access-configs"][0]["config"])
    assert (await policies.lake.send("GET", "/lake/delta/g/part-0", keys=fresh)).body == b"x"
    assert "storage-access-configs" not in (await policies.call("GET", ONE)).document


async def test_requested_credentials_are_vended_or_the_request_is_refused(policies: PolicyLake) -> None:
    await create(policies)
    assert (await policies.call("GET", ONE, **delegation(DELEGATION))).error == (400, "BadRequestException")
    assert (await policies.call("GET", ONE, **delegation("remote-signing"))).error == (400, "BadRequestException")
    assert (await create(policies, "h", access=DELEGATION)).error == (400, "BadRequestException")
    await create(policies, "far", base_location=LOCATION)
    describer = await policies.lake.user("describer", allow("s3tables:GetTable", "s3tables:CreateTable"))
    refused = await policies.call("GET", f"{ALL}/far", keys=describer, **delegation(DELEGATION))
    assert refused.error == (403, "ForbiddenException")
    refused = await create(policies, "i", base_location="s3://lake/i", access=DELEGATION, keys=describer)
    assert refused.error == (403, "ForbiddenException")
    names = [one["name"] for one in (await policies.call("GET", ALL)).document["identifiers"]]
    assert names == ["far", "g"]
    reader = await policies.lake.user("reader", allow("s3tables:GetTable", "s3tables:GetTableData"))
    loaded = await policies.call("GET", f"{ALL}/far", keys=reader, **delegation(DELEGATION))
    keys = keys_in(loaded.document["storage-access-configs"][0]["config"])
    assert (await policies.lake.send("PUT", "/lake/delta/g/part-0", b"x", keys=keys)).status == 403


async def test_repeated_creation_returns_new_credentials(policies: PolicyLake) -> None:
    key = "0190e3a8-5a5e-7c3e-9d1f-3f1a2b3c4d5e"
    document = {"name": "g", "format": "delta", "base-location": LOCATION}
    headers: dict[str, Any] = {"idempotency_key": key, **delegation(DELEGATION)}
    first = await policies.call("POST", ALL, document, **headers)
    repeated = await policies.call("POST", ALL, document, **headers)
    assert (first.status, repeated.status) == (200, 200)
    assert repeated.document["table"] == first.document["table"]
    assert keys_in(repeated.document["storage-access-configs"][0]["config"]).access_key


async def test_generic_tables_require_permissions(policies: PolicyLake) -> None:
    await create(policies)
    unprivileged = await policies.lake.user("unprivileged", allow("lakebed:*"))
    for method, path, document in (
        ("POST", ALL, {"name": "h", "format": "csv"}),
        ("GET", ALL, None),
        ("GET", ONE, None),
        ("DELETE", ONE, None),
    ):
        assert (await policies.call(method, path, document, keys=unprivileged)).error == (403, "ForbiddenException")


async def test_dropped_generic_table_can_be_restored(policies: PolicyLake) -> None:
    window = {"updates": {"undrop-window-seconds": "60"}}
    assert (await policies.lake.call("POST", "/buckets/lake/properties", window)).status == 200
    await create(policies, base_location=LOCATION)
    await policies.call("DELETE", ONE)
    listed = (await policies.lake.call("GET", "/lake/dropped")).document["dropped"]
    assert [(one["name"], one["kind"]) for one in listed] == [("g", "generic-table")]
    restored = await policies.lake.call("POST", "/lake/dropped/restore", {"namespace": ["ns"], "name": "g"})
    assert restored.status == 200
    assert (await policies.call("GET", ONE)).status == 200
