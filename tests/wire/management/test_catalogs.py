"""Catalogs made over the management API, and used over all other edges."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.iceberg.lake import SCHEMA, Answer

from .office import Office


def a_catalog(name: str = "one", base: str = "s3://sea/one", **more: Any) -> dict[str, Any]:
    """The body of createCatalog."""
    storage = {"storageType": "S3"} | more.pop("storage", {})
    properties = {"default-base-location": base} | more.pop("properties", {})
    return {
        "catalog": {"type": "INTERNAL", "name": name, "properties": properties, "storageConfigInfo": storage} | more
    }


@pytest.fixture
async def sea(office: Office) -> Office:
    """With a bucket `sea` in which there is no catalog."""
    assert (await office.lake.send("PUT", "/sea")).status == 200
    return office


async def iceberg(office: Office, method: str, path: str, document: object = None, **more: Any) -> Answer:
    return await office.lake.call(method, path, document, **more)


async def test_catalog_s_life(sea: Office) -> None:
    asked = a_catalog(properties={"colour": "blue"}, storage={"allowedLocations": ["s3://sea/one/", "s3://sea/more"]})
    made = await sea.call("POST", "/catalogs", asked)
    now_ms = sea.lake.clock.now_ms()
    shown = {
        "type": "INTERNAL",
        "name": "one",
        "properties": {"colour": "blue", "default-base-location": "s3://sea/one/"},
        "createTimestamp": now_ms,
        "lastUpdateTimestamp": now_ms,
        "entityVersion": 1,
        "storageConfigInfo": {
            "storageType": "S3",
            "allowedLocations": ["s3://sea/one/", "s3://sea/more/"],
            "region": "us-east-1",
        },
    }
    assert (made.status, made.document) == (201, shown)
    assert await sea.done("GET", "/catalogs/one") == shown
    assert [one["name"] for one in (await sea.done("GET", "/catalogs"))["catalogs"]] == ["lake", "one"]
    changed = await sea.done("PUT", "/catalogs/one", {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert changed["properties"] == {"a": "b", "default-base-location": "s3://sea/one/"}
    assert (changed["entityVersion"], changed["storageConfigInfo"]) == (2, shown["storageConfigInfo"])
    narrowed = {"currentEntityVersion": 2, "storageConfigInfo": {"storageType": "S3", "allowedLocations": []}}
    changed = await sea.done("PUT", "/catalogs/one", narrowed)
    assert changed["storageConfigInfo"]["allowedLocations"] == ["s3://sea/one/"]
    assert (await sea.call("PUT", "/catalogs/one", narrowed)).error == (409, "CommitFailedException")
    roles = await sea.done("GET", "/catalogs/one/catalog-roles")
    assert [role["name"] for role in roles["roles"]] == ["catalog_admin"]
    holders = await sea.done("GET", "/catalogs/one/catalog-roles/catalog_admin/principal-roles")
    assert [role["name"] for role in holders["roles"]] == ["service_admin"]
    assert (await sea.call("DELETE", "/catalogs/one")).status == 204
    assert (await sea.call("GET", "/catalogs/one")).error == (404, "NoSuchWarehouseException")
    assert (await sea.call("DELETE", "/catalogs/one")).error == (404, "NoSuchWarehouseException")


async def test_catalogs_do_not_overlap_and_are_not_empty_when_they_go(sea: Office) -> None:
    await sea.done("POST", "/catalogs", a_catalog())
    for again, refused in (
        (a_catalog(), (409, "AlreadyExistsException")),
        (a_catalog("two", "s3://sea/one/in"), (400, "BadRequestException")),
        (a_catalog("two", "s3://sea"), (400, "BadRequestException")),
        (a_catalog("two", "s3://lake/two"), (400, "BadRequestException")),
        (a_catalog("two", "s3://ghost/two"), (400, "BadRequestException")),
        (a_catalog("two", storage={"allowedLocations": ["s3://other/x"]}), (400, "BadRequestException")),
        (a_catalog("system$two", "s3://sea/two"), (400, "BadRequestException")),
    ):
        assert (await sea.call("POST", "/catalogs", again)).error == refused
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    assert (await sea.call("DELETE", "/catalogs/one")).error == (400, "BadRequestException")
    assert (await sea.call("DELETE", "/catalogs/lake")).error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "storage",
    [
        {"storageType": "FILE"},
        {"storageType": "GCS", "gcsServiceAccount": "x"},
        {"storageType": "AZURE", "tenantId": "x"},
        {"roleArn": "arn:aws:iam::1:role/r"},
        {"endpoint": "https://s3.example"},
        {"endpointInternal": "https://s3.example"},
        {"stsEndpoint": "https://sts.example"},
        {"stsUnavailable": True},
        {"allowedKmsKeys": ["k"]},
        {"storageName": "other"},
    ],
)
async def test_other_stores_are_refused_in_the_protocol_s_form(sea: Office, storage: dict[str, Any]) -> None:
    refused = await sea.call("POST", "/catalogs", a_catalog(storage=storage))
    assert refused.error == (406, "UnsupportedOperationException")
    assert "not supported" in refused.document["error"]["message"]
    update = {"currentEntityVersion": 1, "storageConfigInfo": {"storageType": "S3"} | storage}
    assert (await sea.call("PUT", "/catalogs/lake", update)).error == (406, "UnsupportedOperationException")


async def test_what_clients_send_by_default_is_taken(sea: Office) -> None:
    defaults: dict[str, Any] = {
        "roleArn": None,
        "externalId": None,
        "endpoint": None,
        "stsUnavailable": False,
        "pathStyleAccess": False,
        "kmsUnavailable": None,
        "allowedKmsKeys": [],
        "allowedLocations": None,
        "region": "us-east-1",
    }
    await sea.done("POST", "/catalogs", a_catalog(storage=defaults, createTimestamp=1, entityVersion=7))
    # As `polaris setup apply` sends them.
    texts = ("roleArn", "externalId", "userArn", "region", "endpoint", "endpointInternal", "stsEndpoint")
    await sea.done("POST", "/catalogs", a_catalog("empty", "s3://sea/empty", storage=dict.fromkeys(texts, "")))
    elsewhere = a_catalog("two", "s3://sea/two", storage={"region": "eu-west-1"})
    assert (await sea.call("POST", "/catalogs", elsewhere)).error == (400, "BadRequestException")
    remote = a_catalog("two", "s3://sea/two", type="EXTERNAL", connectionConfigInfo={"connectionType": "HIVE"})
    assert (await sea.call("POST", "/catalogs", remote)).error == (406, "UnsupportedOperationException")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"catalog": {}},
        {"catalog": {"name": "x", "type": "INTERNAL", "storageConfigInfo": {"storageType": "S3"}}},
        {"catalog": {"name": "x", "properties": {}, "storageConfigInfo": {"storageType": "S3"}}},
        {"catalog": {"name": "x", "properties": {"default-base-location": "s3://sea/x"}}},
        a_catalog(type="OTHER"),
        a_catalog(storage={"storageType": "TAPE"}),
        a_catalog(base="s3://sea/x/../y"),
    ],
)
async def test_what_is_no_catalog_is_refused(sea: Office, document: object) -> None:
    assert (await sea.call("POST", "/catalogs", document)).error == (400, "BadRequestException")


async def test_catalog_is_used_as_any(sea: Office) -> None:
    await sea.done("POST", "/catalogs", a_catalog(properties={"colour": "blue"}))
    config = (await iceberg(sea, "GET", "/config?warehouse=one")).document
    assert config["overrides"]["prefix"] == "one"
    assert config["defaults"]["warehouse-location"] == "s3://sea/one/"
    assert config["defaults"]["default-base-location"] == "s3://sea/one/"
    assert config["defaults"]["colour"] == "blue"
    of_bucket = (await iceberg(sea, "GET", "/config?warehouse=lake")).document["defaults"]
    assert "default-base-location" not in of_bucket
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    namespace = (await iceberg(sea, "GET", "/one/namespaces/ns")).document
    assert namespace["properties"]["location"].startswith("s3://sea/one/namespaces/")
    made = await iceberg(sea, "POST", "/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    location = made.document["metadata"]["location"]
    assert location.startswith("s3://sea/one/tables/")
    assert made.document["metadata-location"].startswith(location)
    outside = {"name": "u", "schema": SCHEMA, "location": "s3://sea/two/u"}
    assert (await iceberg(sea, "POST", "/one/namespaces/ns/tables", outside)).error == (400, "BadRequestException")
    loaded = await iceberg(sea, "GET", "/one/namespaces/ns/tables/t", access="vended-credentials")
    (keys,) = loaded.document["storage-credentials"]
    assert keys["prefix"] == f"{location}/"
    path = "/one/namespaces/ns/tables/t"
    refresh = keys["config"]["client.refresh-credentials-endpoint"]
    assert refresh == f"v1{path}/credentials"
    assert (await iceberg(sea, "GET", f"{path}/credentials")).status == 200
    described = (await iceberg(sea, "GET", "/buckets/one")).document
    assert (described["warehouse"], described["warehouse-location"]) == ("one", "s3://sea/one/")
    policy = {"name": "p", "type": "system.data-compaction", "content": '{"enable": true}'}
    polaris = "/api/catalog/polaris/v1/one"
    assert (await sea.lake.send("POST", f"{polaris}/namespaces/ns/policies", _json(policy))).status == 200
    attach = {"target": {"type": "catalog", "path": []}}
    mapped = await sea.lake.send("PUT", f"{polaris}/namespaces/ns/policies/p/mappings", _json(attach))
    assert mapped.status == 204
    applicable = await sea.lake.send("GET", f"{polaris}/applicable-policies?namespace=ns&target-name=t")
    assert [one["name"] for one in applicable.document["applicable-policies"]] == ["p"]
    of_lake = await sea.lake.send("GET", "/api/catalog/polaris/v1/lake/applicable-policies")
    assert of_lake.document["applicable-policies"] == []


async def test_name_goes_escaped_into_paths(sea: Office) -> None:
    await sea.done("POST", "/catalogs", a_catalog("sales ü"))
    config = (await iceberg(sea, "GET", "/config?warehouse=sales%20%C3%BC")).document
    prefix = config["overrides"]["prefix"]
    assert prefix == "sales%20%C3%BC"
    assert (await iceberg(sea, "POST", f"/{prefix}/namespaces", {"namespace": ["ns"]})).status == 200
    assert (await sea.done("GET", f"/catalogs/{prefix}"))["name"] == "sales ü"


async def test_external_catalog_is_read_only_to_clients(sea: Office) -> None:
    made = await sea.done("POST", "/catalogs", a_catalog(type="EXTERNAL"))
    assert made["type"] == "EXTERNAL"
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    for path, document in (
        ("/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}),
        ("/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "stage-create": True}),
        ("/one/namespaces/ns/tables/t", {"requirements": [{"type": "assert-create"}], "updates": []}),
    ):
        assert (await iceberg(sea, "POST", path, document)).error == (400, "BadRequestException")


async def test_right_to_a_catalog_is_asked_by_grants_of_its_own(sea: Office) -> None:
    for name in ("one", "two"):
        await sea.done("POST", "/catalogs", a_catalog(name, f"s3://sea/{name}"))
        assert (await iceberg(sea, "POST", f"/{name}/namespaces", {"namespace": ["ns"]})).status == 200
    await sea.role("reader")
    await sea.done("POST", "/catalogs/one/catalog-roles", {"catalogRole": {"name": "reader"}})
    grant = {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    await sea.done("PUT", "/catalogs/one/catalog-roles/reader/grants", grant)
    await sea.done("PUT", "/principal-roles/reader/catalog-roles/one", {"catalogRole": {"name": "reader"}})
    keys = await sea.user_with("ann", "reader")
    assert (await iceberg(sea, "GET", "/one/namespaces", keys=keys)).document["namespaces"] == [["ns"]]
    assert (await iceberg(sea, "GET", "/config?warehouse=one", keys=keys)).status == 200
    for path in ("/two/namespaces", "/config?warehouse=two", "/lake/namespaces"):
        assert (await iceberg(sea, "GET", path, keys=keys)).error == (403, "ForbiddenException")
    for method, path, document in (
        ("POST", "/catalogs", a_catalog("three", "s3://sea/three")),
        ("PUT", "/catalogs/two", {"currentEntityVersion": 1, "properties": {}}),
        ("DELETE", "/catalogs/two", None),
    ):
        assert (await sea.call(method, path, document, keys=keys)).error == (403, "ForbiddenException")


async def test_any_table_signing_finds_the_table_by_its_file(sea: Office) -> None:
    locations = {}
    for name in ("one", "two"):
        await sea.done("POST", "/catalogs", a_catalog(name, f"s3://sea/{name}"))
        await iceberg(sea, "POST", f"/{name}/namespaces", {"namespace": ["ns"]})
        made = await iceberg(sea, "POST", f"/{name}/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
        locations[name] = made.document["metadata"]["location"].removeprefix("s3://")

    def asked(key: str) -> dict[str, Any]:
        uri = f"http://lake.example:9000/{key}"
        return {"region": "us-east-1", "uri": uri, "method": "GET", "headers": {"Host": ["lake.example:9000"]}}

    for name in ("one", "two"):
        own, other = (locations[one] + "/data/f" for one in (name, "two" if name == "one" else "one"))
        assert (await iceberg(sea, "POST", "/aws/s3/sign", asked(own))).status == 200
        path = f"/{name}/namespaces/ns/tables/t/sign"
        assert (await iceberg(sea, "POST", path, asked(own))).status == 200
        assert (await iceberg(sea, "POST", path, asked(other))).error == (403, "ForbiddenException")
    assert (await iceberg(sea, "POST", "/aws/s3/sign", asked("sea/three/f"))).error == (403, "ForbiddenException")


def _json(document: object) -> bytes:
    return json.dumps(document).encode()
