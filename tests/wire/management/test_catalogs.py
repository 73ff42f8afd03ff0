"""Catalogs created with the management API, and used with all other APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.iceberg.lake import SCHEMA, Answer

from .management_client import ManagementClient


def catalog_body(name: str = "one", base: str = "s3://sea/one", **more: Any) -> dict[str, Any]:
    """The body of createCatalog."""
    storage = {"storageType": "S3"} | more.pop("storage", {})
    properties = {"default-base-location": base} | more.pop("properties", {})
    return {
        "catalog": {"type": "INTERNAL", "name": name, "properties": properties, "storageConfigInfo": storage} | more
    }


@pytest.fixture
async def sea(management: ManagementClient) -> ManagementClient:
    """A management client, with a bucket `sea` without catalogs."""
    assert (await management.lake.send("PUT", "/sea")).status == 200
    return management


async def iceberg(management: ManagementClient, method: str, path: str, document: object = None, **more: Any) -> Answer:
    return await management.lake.call(method, path, document, **more)


async def test_catalog_is_created_returned_updated_and_deleted(sea: ManagementClient) -> None:
    body = catalog_body(properties={"colour": "blue"}, storage={"allowedLocations": ["s3://sea/one/", "s3://sea/more"]})
    created = await sea.call("POST", "/catalogs", body)
    now_ms = sea.lake.clock.now_ms()
    expected = {
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
    assert (created.status, created.document) == (201, expected)
    assert await sea.call_ok("GET", "/catalogs/one") == expected
    assert [one["name"] for one in (await sea.call_ok("GET", "/catalogs"))["catalogs"]] == ["lake", "one"]
    changed = await sea.call_ok("PUT", "/catalogs/one", {"currentEntityVersion": 1, "properties": {"a": "b"}})
    assert changed["properties"] == {"a": "b", "default-base-location": "s3://sea/one/"}
    assert (changed["entityVersion"], changed["storageConfigInfo"]) == (2, expected["storageConfigInfo"])
    narrowed = {"currentEntityVersion": 2, "storageConfigInfo": {"storageType": "S3", "allowedLocations": []}}
    changed = await sea.call_ok("PUT", "/catalogs/one", narrowed)
    assert changed["storageConfigInfo"]["allowedLocations"] == ["s3://sea/one/"]
    assert (await sea.call("PUT", "/catalogs/one", narrowed)).error == (409, "CommitFailedException")
    roles = await sea.call_ok("GET", "/catalogs/one/catalog-roles")
    assert [role["name"] for role in roles["roles"]] == ["catalog_admin"]
    holders = await sea.call_ok("GET", "/catalogs/one/catalog-roles/catalog_admin/principal-roles")
    assert [role["name"] for role in holders["roles"]] == ["service_admin"]
    assert (await sea.call("DELETE", "/catalogs/one")).status == 204
    assert (await sea.call("GET", "/catalogs/one")).error == (404, "NoSuchWarehouseException")
    assert (await sea.call("DELETE", "/catalogs/one")).error == (404, "NoSuchWarehouseException")


async def test_catalogs_must_not_overlap_and_must_be_empty_to_be_deleted(sea: ManagementClient) -> None:
    await sea.call_ok("POST", "/catalogs", catalog_body())
    for body, refused in (
        (catalog_body(), (409, "AlreadyExistsException")),
        (catalog_body("two", "s3://sea/one/in"), (400, "BadRequestException")),
        (catalog_body("two", "s3://sea"), (400, "BadRequestException")),
        (catalog_body("two", "s3://lake/two"), (400, "BadRequestException")),
        (catalog_body("two", "s3://ghost/two"), (400, "BadRequestException")),
        (catalog_body("two", storage={"allowedLocations": ["s3://other/x"]}), (400, "BadRequestException")),
        (catalog_body("system$two", "s3://sea/two"), (400, "BadRequestException")),
    ):
        assert (await sea.call("POST", "/catalogs", body)).error == refused
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    assert (await sea.call("DELETE", "/catalogs/one")).error == (400, "BadRequestException")
    assert (await sea.call("DELETE", "/catalogs/lake")).error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "storage",
    [
        {"storageType": "FILE"},
        {"storageType": "GCS", "gcsServiceAccount": "x"},
        {"storageType": "AZURE", "tenantId": "x"},
        {"stsUnavailable": True},
        {"externalId": "x"},
        {"allowedKmsKeys": ["arn:aws:kms:us-east-1:1:key/k"]},
    ],
)
async def test_other_stores_are_unsupported(sea: ManagementClient, storage: dict[str, Any]) -> None:
    refused = await sea.call("POST", "/catalogs", catalog_body(storage=storage))
    assert refused.error == (406, "UnsupportedOperationException")
    assert "not supported" in refused.document["error"]["message"]
    update = {"currentEntityVersion": 1, "storageConfigInfo": {"storageType": "S3"} | storage}
    assert (await sea.call("PUT", "/catalogs/lake", update)).error == (406, "UnsupportedOperationException")


@pytest.mark.parametrize(
    ("storage", "reason"),
    [
        ({"endpoint": "https://s3.example"}, "external_storage.hosts"),
        ({"endpointInternal": "https://s3.example"}, "external_storage.hosts"),
        ({"stsEndpoint": "https://sts.example"}, "external_storage.hosts"),
        ({"roleArn": "no-arn", "region": "us-east-1"}, "roleArn"),
        ({"roleArn": "arn:aws:iam::123456789012:role/r"}, "region is required"),
        ({"storageName": "other", "region": "us-east-1"}, r"external_storage.credentials.other"),
    ],
)
async def test_storage_profiles_that_the_settings_do_not_allow_are_rejected(
    sea: ManagementClient, storage: dict[str, Any], reason: str
) -> None:
    refused = await sea.call("POST", "/catalogs", catalog_body(storage=storage))
    assert refused.error == (400, "BadRequestException")
    assert reason in refused.document["error"]["message"]
    update = {"currentEntityVersion": 1, "storageConfigInfo": {"storageType": "S3"} | storage}
    assert (await sea.call("PUT", "/catalogs/lake", update)).error == (400, "BadRequestException")


async def test_default_values_of_clients_are_accepted(sea: ManagementClient) -> None:
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
    await sea.call_ok("POST", "/catalogs", catalog_body(storage=defaults, createTimestamp=1, entityVersion=7))
    # As `polaris setup apply` sends them.
    texts = ("roleArn", "externalId", "userArn", "region", "endpoint", "endpointInternal", "stsEndpoint")
    await sea.call_ok("POST", "/catalogs", catalog_body("empty", "s3://sea/empty", storage=dict.fromkeys(texts, "")))
    other_region = catalog_body("two", "s3://sea/two", storage={"region": "eu-west-1"})
    assert (await sea.call("POST", "/catalogs", other_region)).error == (400, "BadRequestException")
    remote = catalog_body("two", "s3://sea/two", type="EXTERNAL", connectionConfigInfo={"connectionType": "HIVE"})
    assert (await sea.call("POST", "/catalogs", remote)).error == (406, "UnsupportedOperationException")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"catalog": {}},
        {"catalog": {"name": "x", "type": "INTERNAL", "storageConfigInfo": {"storageType": "S3"}}},
        {"catalog": {"name": "x", "properties": {}, "storageConfigInfo": {"storageType": "S3"}}},
        {"catalog": {"name": "x", "properties": {"default-base-location": "s3://sea/x"}}},
        catalog_body(type="OTHER"),
        catalog_body(storage={"storageType": "TAPE"}),
        catalog_body(base="s3://sea/x/../y"),
    ],
)
async def test_invalid_catalogs_are_refused(sea: ManagementClient, document: object) -> None:
    assert (await sea.call("POST", "/catalogs", document)).error == (400, "BadRequestException")


async def test_catalog_works_with_all_apis(sea: ManagementClient) -> None:
    await sea.call_ok("POST", "/catalogs", catalog_body(properties={"colour": "blue"}))
    config = (await iceberg(sea, "GET", "/config?warehouse=one")).document
    assert config["overrides"]["prefix"] == "one"
    assert config["defaults"]["warehouse-location"] == "s3://sea/one/"
    assert config["defaults"]["default-base-location"] == "s3://sea/one/"
    assert config["defaults"]["colour"] == "blue"
    bucket_defaults = (await iceberg(sea, "GET", "/config?warehouse=lake")).document["defaults"]
    assert "default-base-location" not in bucket_defaults
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    namespace = (await iceberg(sea, "GET", "/one/namespaces/ns")).document
    assert namespace["properties"]["location"].startswith("s3://sea/one/namespaces/")
    created = await iceberg(sea, "POST", "/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    location = created.document["metadata"]["location"]
    assert location.startswith("s3://sea/one/tables/")
    assert created.document["metadata-location"].startswith(location)
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


async def test_catalog_name_is_url_encoded_in_paths(sea: ManagementClient) -> None:
    await sea.call_ok("POST", "/catalogs", catalog_body("sales ü"))
    config = (await iceberg(sea, "GET", "/config?warehouse=sales%20%C3%BC")).document
    prefix = config["overrides"]["prefix"]
    assert prefix == "sales%20%C3%BC"
    assert (await iceberg(sea, "POST", f"/{prefix}/namespaces", {"namespace": ["ns"]})).status == 200
    assert (await sea.call_ok("GET", f"/catalogs/{prefix}"))["name"] == "sales ü"


async def test_external_catalog_is_read_only_for_clients(sea: ManagementClient) -> None:
    created = await sea.call_ok("POST", "/catalogs", catalog_body(type="EXTERNAL"))
    assert created["type"] == "EXTERNAL"
    assert (await iceberg(sea, "POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    for path, document in (
        ("/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}),
        ("/one/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "stage-create": True}),
        ("/one/namespaces/ns/tables/t", {"requirements": [{"type": "assert-create"}], "updates": []}),
    ):
        assert (await iceberg(sea, "POST", path, document)).error == (400, "BadRequestException")


async def test_grants_on_a_catalog_apply_to_that_catalog_only(sea: ManagementClient) -> None:
    for name in ("one", "two"):
        await sea.call_ok("POST", "/catalogs", catalog_body(name, f"s3://sea/{name}"))
        assert (await iceberg(sea, "POST", f"/{name}/namespaces", {"namespace": ["ns"]})).status == 200
    await sea.role("reader")
    await sea.call_ok("POST", "/catalogs/one/catalog-roles", {"catalogRole": {"name": "reader"}})
    grant = {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    await sea.call_ok("PUT", "/catalogs/one/catalog-roles/reader/grants", grant)
    await sea.call_ok("PUT", "/principal-roles/reader/catalog-roles/one", {"catalogRole": {"name": "reader"}})
    keys = await sea.principal_with_role("ann", "reader")
    assert (await iceberg(sea, "GET", "/one/namespaces", keys=keys)).document["namespaces"] == [["ns"]]
    assert (await iceberg(sea, "GET", "/config?warehouse=one", keys=keys)).status == 200
    for path in ("/two/namespaces", "/config?warehouse=two", "/lake/namespaces"):
        assert (await iceberg(sea, "GET", path, keys=keys)).error == (403, "ForbiddenException")
    for method, path, document in (
        ("POST", "/catalogs", catalog_body("three", "s3://sea/three")),
        ("PUT", "/catalogs/two", {"currentEntityVersion": 1, "properties": {}}),
        ("DELETE", "/catalogs/two", None),
    ):
        assert (await sea.call(method, path, document, keys=keys)).error == (403, "ForbiddenException")


async def test_signing_for_any_table_finds_the_table_by_location(sea: ManagementClient) -> None:
    locations = {}
    for name in ("one", "two"):
        await sea.call_ok("POST", "/catalogs", catalog_body(name, f"s3://sea/{name}"))
        await iceberg(sea, "POST", f"/{name}/namespaces", {"namespace": ["ns"]})
        created = await iceberg(sea, "POST", f"/{name}/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
        locations[name] = created.document["metadata"]["location"].removeprefix("s3://")

    def sign_request(key: str) -> dict[str, Any]:
        uri = f"http://lake.example:9000/{key}"
        return {"region": "us-east-1", "uri": uri, "method": "GET", "headers": {"Host": ["lake.example:9000"]}}

    for name in ("one", "two"):
        own, other = (locations[one] + "/data/f" for one in (name, "two" if name == "one" else "one"))
        assert (await iceberg(sea, "POST", "/aws/s3/sign", sign_request(own))).status == 200
        path = f"/{name}/namespaces/ns/tables/t/sign"
        assert (await iceberg(sea, "POST", path, sign_request(own))).status == 200
        assert (await iceberg(sea, "POST", path, sign_request(other))).error == (403, "ForbiddenException")
    assert (await iceberg(sea, "POST", "/aws/s3/sign", sign_request("sea/three/f"))).error == (
        403,
        "ForbiddenException",
    )


def _json(document: object) -> bytes:
    return json.dumps(document).encode()
