from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, SCHEMA, Answer, allow, keys_in

from .policy_lake import BASES, PolicyLake

ALL = "/namespaces/ns/generic-tables"
ONE = f"{ALL}/g"
WHERE = "s3://lake/delta/g"
DELEGATION = "vended-credentials"


async def make(
    policies: PolicyLake, name: str = "g", *, keys: Keys = ROOT_KEYS, access: str | None = None, **more: Any
) -> Answer:
    document = {"name": name, "format": "delta", **{key.replace("_", "-"): value for key, value in more.items()}}
    return await policies.call("POST", ALL, document, keys=keys, **asking(access))


def asking(access: str | None) -> dict[str, Any]:
    return {} if access is None else {"Polaris_Generic_Table_Access_Delegation": access}


@pytest.mark.parametrize("base", BASES)
async def test_generic_table_s_life_at_every_base(policies: PolicyLake, base: str) -> None:
    asked = {"name": "g", "format": "delta", "base-location": WHERE, "doc": "others'", "properties": {"a": "1"}}
    made = await policies.call("POST", ALL, asked, base=base)
    assert (made.status, made.document) == (200, {"table": asked})
    assert (await policies.call("GET", ONE, base=base)).document == {"table": asked}
    listed = await policies.call("GET", ALL, base=base)
    assert listed.document == {"identifiers": [{"namespace": ["ns"], "name": "g"}], "next-page-token": None}
    dropped = await policies.call("DELETE", ONE, base=base)
    assert (dropped.status, dropped.body) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (await policies.call(method, ONE, base=base)).error == (404, "NoSuchTableException")


async def test_what_was_not_said_is_not_shown(policies: PolicyLake) -> None:
    shown = {"table": {"name": "g", "format": "delta", "properties": {}}}
    assert (await make(policies)).document == shown
    assert (await policies.call("GET", ONE)).document == shown


async def test_names_are_shared_with_tables_and_views(policies: PolicyLake) -> None:
    await make(policies)
    for name in ("g", "t", "v"):
        assert (await make(policies, name)).error == (409, "AlreadyExistsException")
    assert (await policies.lake.table("g")).error == (409, "AlreadyExistsException")
    view = {"name": "g", "schema": SCHEMA, "view-version": VIEW_VERSION}
    refused = await policies.lake.call("POST", "/lake/namespaces/ns/views", view)
    assert refused.error == (409, "AlreadyExistsException")
    assert (await policies.lake.call("GET", "/lake/namespaces/ns/tables/g")).error == (404, "NoSuchTableException")
    assert (await policies.call("GET", f"{ALL}/t")).error == (404, "NoSuchTableException")
    listed = (await policies.lake.call("GET", "/lake/namespaces/ns/tables")).document["identifiers"]
    assert [one["name"] for one in listed] == ["t"]


async def test_generic_tables_are_listed_in_pages(policies: PolicyLake) -> None:
    for number in range(5):
        await make(policies, f"g{number}")
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = (await policies.call("GET", f"{ALL}?pageSize=2&pageToken={token}")).document
        assert len(page["identifiers"]) <= 2
        seen += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
        if len(seen) == 2:
            # What comes and goes meanwhile moves nothing that was not there.
            await policies.call("DELETE", f"{ALL}/g1")
            await make(policies, "g00")
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
async def test_bad_generic_tables_are_refused(policies: PolicyLake, document: Any) -> None:
    assert (await policies.call("POST", ALL, document)).error == (400, "BadRequestException")
    assert (await policies.call("GET", ALL)).document["identifiers"] == []


async def test_places_that_are_taken_and_namespaces_that_are_not_there(policies: PolicyLake) -> None:
    await make(policies, base_location=WHERE)
    for place in (WHERE, f"{WHERE}/in", "s3://lake/delta"):
        assert (await make(policies, "h", base_location=place)).error == (400, "BadRequestException")
    elsewhere = "/namespaces/none/generic-tables"
    asked = {"name": "g", "format": "delta"}
    assert (await policies.call("POST", elsewhere, asked)).error == (404, "NoSuchNamespaceException")
    assert (await policies.call("GET", elsewhere)).error == (404, "NoSuchNamespaceException")
    assert (await policies.call("GET", f"{elsewhere}/g")).error == (404, "NoSuchTableException")
    missing = await policies.lake.send("GET", "/polaris/v1/none/namespaces/ns/generic-tables")
    assert missing.error == (404, "NoSuchWarehouseException")


async def test_keys_open_its_directory_and_no_other(policies: PolicyLake) -> None:
    made = await make(policies, base_location=WHERE, access=DELEGATION)
    [access] = made.document["storage-access-configs"]
    assert access["prefix"] == "s3://lake/delta/g/"
    assert access["config"]["s3.client.region"] == access["config"]["client.region"]
    keys = keys_in(access["config"])
    assert (await policies.lake.send("PUT", "/lake/delta/g/part-0", b"x", keys=keys)).status == 200
    assert (await policies.lake.send("PUT", "/lake/delta/g10/part-0", b"x", keys=keys)).status == 403
    loaded = await policies.call("GET", ONE, **asking(DELEGATION))
    assert loaded.headers["cache-control"] == "no-store, private"
    fresh = keys_in(loaded.document["storage-access-configs"][0]["config"])
    assert (await policies.lake.send("GET", "/lake/delta/g/part-0", keys=fresh)).body == b"x"
    assert "storage-access-configs" not in (await policies.call("GET", ONE)).document


async def test_keys_are_given_as_asked_for_or_the_request_is_refused(policies: PolicyLake) -> None:
    await make(policies)
    assert (await policies.call("GET", ONE, **asking(DELEGATION))).error == (400, "BadRequestException")
    assert (await policies.call("GET", ONE, **asking("remote-signing"))).error == (400, "BadRequestException")
    assert (await make(policies, "h", access=DELEGATION)).error == (400, "BadRequestException")
    await make(policies, "far", base_location=WHERE)
    looker = await policies.lake.user("looker", allow("s3tables:GetTable", "s3tables:CreateTable"))
    refused = await policies.call("GET", f"{ALL}/far", keys=looker, **asking(DELEGATION))
    assert refused.error == (403, "ForbiddenException")
    refused = await make(policies, "i", base_location="s3://lake/i", access=DELEGATION, keys=looker)
    assert refused.error == (403, "ForbiddenException")
    names = [one["name"] for one in (await policies.call("GET", ALL)).document["identifiers"]]
    assert names == ["far", "g"]
    reader = await policies.lake.user("reader", allow("s3tables:GetTable", "s3tables:GetTableData"))
    loaded = await policies.call("GET", f"{ALL}/far", keys=reader, **asking(DELEGATION))
    keys = keys_in(loaded.document["storage-access-configs"][0]["config"])
    assert (await policies.lake.send("PUT", "/lake/delta/g/part-0", b"x", keys=keys)).status == 403


async def test_creation_sent_again_shows_the_table_with_keys_of_its_own(policies: PolicyLake) -> None:
    key = "0190e3a8-5a5e-7c3e-9d1f-3f1a2b3c4d5e"
    document = {"name": "g", "format": "delta", "base-location": WHERE}
    headers: dict[str, Any] = {"idempotency_key": key, **asking(DELEGATION)}
    first = await policies.call("POST", ALL, document, **headers)
    again = await policies.call("POST", ALL, document, **headers)
    assert (first.status, again.status) == (200, 200)
    assert again.document["table"] == first.document["table"]
    assert keys_in(again.document["storage-access-configs"][0]["config"]).access_key


async def test_rights_are_asked_for(policies: PolicyLake) -> None:
    await make(policies)
    nobody = await policies.lake.user("nobody", allow("lakebed:*"))
    for method, path, document in (
        ("POST", ALL, {"name": "h", "format": "csv"}),
        ("GET", ALL, None),
        ("GET", ONE, None),
        ("DELETE", ONE, None),
    ):
        assert (await policies.call(method, path, document, keys=nobody)).error == (403, "ForbiddenException")


async def test_dropped_one_is_among_what_can_be_restored(policies: PolicyLake) -> None:
    window = {"updates": {"undrop-window-seconds": "60"}}
    assert (await policies.lake.call("POST", "/buckets/lake/properties", window)).status == 200
    await make(policies, base_location=WHERE)
    await policies.call("DELETE", ONE)
    listed = (await policies.lake.call("GET", "/lake/dropped")).document["dropped"]
    assert [(one["name"], one["kind"]) for one in listed] == [("g", "generic-table")]
    restored = await policies.lake.call("POST", "/lake/dropped/restore", {"namespace": ["ns"], "name": "g"})
    assert restored.status == 200
    assert (await policies.call("GET", ONE)).status == 200
