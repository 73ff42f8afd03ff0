from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.wire.iceberg.lake import ROOT_KEYS, Answer, allow
from tests.wire.iceberg.two_lakes import CATALOG, CONNECTION, TwoLakes, two_lakes

PATH = f"/lakebed/v1/connections/{CATALOG}"
OAUTH = {
    "authenticationType": "OAUTH",
    "clientId": "me",
    "clientSecret": "s3cret-of-a-client",
    "tokenUri": "https://login.example/token",
    "scopes": ["PRINCIPAL_ROLE:ALL"],
}
HTTPS = {**CONNECTION, "uri": "https://far.example/iceberg"}


@pytest.fixture
async def lakes(tmp_path: Path) -> AsyncIterator[TwoLakes]:
    async with two_lakes(tmp_path, connected=False) as both:
        yield both


async def send(lakes: TwoLakes, method: str, path: str = PATH, document: object = None, **more: Any) -> Answer:
    return await lakes.near.send(method, path, b"" if document is None else json.dumps(document).encode(), **more)


async def test_connection_is_created_returned_checked_and_removed(lakes: TwoLakes) -> None:
    assert (await send(lakes, "GET")).status == 404
    created = await send(lakes, "PUT", document=CONNECTION)
    assert created.status == 200
    info = created.document["connectionConfigInfo"]
    assert info["uri"] == CONNECTION["uri"]
    assert info["remoteCatalogName"] == "lake"
    assert info["authenticationParameters"] == {
        "authenticationType": "SIGV4",
        "accessKeyId": ROOT_KEYS.access_key,
        "signingRegion": "us-east-1",
        "signingName": "s3",
    }
    assert (await send(lakes, "GET")).document == created.document
    listed = (await send(lakes, "GET", "/lakebed/v1/connections")).document["connections"]
    assert listed == [created.document]
    tried = await send(lakes, "POST", f"{PATH}/check")
    assert tried.document["prefix"] == "lake"
    assert tried.document["keeps-idempotency-keys"] is True
    assert (await lakes.call("GET", "/namespaces")).document["namespaces"] == [["ns"]]
    assert (await send(lakes, "DELETE")).status == 204
    assert (await send(lakes, "GET")).status == 404
    assert (await send(lakes, "DELETE")).status == 404
    assert (await lakes.call("GET", "/namespaces")).document["namespaces"] == []
    emitted = [kind for kind in await lakes.events() if kind.startswith("Connection")]
    assert emitted == ["ConnectionConfigured", "ConnectionRemoved"]
    audited = (await send(lakes, "GET", "/lakebed/v1/audit?kind=Connection*")).document["events"]
    assert [one["kind"] for one in audited] == emitted


async def test_secrets_are_never_returned(lakes: TwoLakes) -> None:
    for authentication in (OAUTH, {"authenticationType": "BEARER", "bearerToken": "s3cret-token"}):
        created = await send(lakes, "PUT", document={**HTTPS, "authenticationParameters": authentication})
        assert created.status == 200
        for answer in (created, await send(lakes, "GET"), await send(lakes, "GET", "/lakebed/v1/events")):
            assert b"s3cret" not in answer.body
        rows = await lakes.near.store.object_context.meta.rows("SELECT config, secrets FROM catalog_connections")
        assert all(b"s3cret" not in bytes(column or b"") for row in rows for column in row)


async def test_removing_a_connection_removes_its_synthetic_entities(lakes: TwoLakes) -> None:
    await send(lakes, "PUT", document=CONNECTION)
    await lakes.table()
    keys = await lakes.member(
        "one", {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_PROPERTIES"}
    )
    assert (await lakes.call("GET", "/namespaces/ns/tables/t", keys=keys)).status == 200
    assert (await send(lakes, "DELETE")).status == 204
    grants = f"/catalogs/{CATALOG}/catalog-roles/one/grants"
    assert (await lakes.management.call_ok("GET", grants))["grants"] == []
    await send(lakes, "PUT", document=CONNECTION)
    assert (await lakes.call("GET", "/namespaces/ns/tables/t", keys=keys)).status == 403


async def test_replaced_connection_keeps_grants(lakes: TwoLakes) -> None:
    await send(lakes, "PUT", document=CONNECTION)
    await lakes.table()
    keys = await lakes.member(
        "one", {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_PROPERTIES"}
    )
    assert (await send(lakes, "PUT", document={**CONNECTION, "properties": {"k": "v"}})).status == 200
    assert (await lakes.call("GET", "/namespaces/ns/tables/t", keys=keys)).status == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"connectionType": "HIVE"}, 406),
        ({"connectionType": "SOMETHING"}, 400),
        ({"uri": ""}, 400),
        ({"uri": "ftp://far.example"}, 400),
        ({"uri": "http://user:password@far.example"}, 400),
        ({"uri": "http://elsewhere.test/iceberg"}, 400),
        ({"uri": "http://169.254.169.254/latest"}, 400),
        ({"uri": "http://far.example.evil.test/"}, 400),
        ({"uri": "http://evil.test#.example"}, 400),
        ({"remoteCatalogName": "a\nb"}, 400),
        ({"authenticationParameters": {"authenticationType": "IMPLICIT"}}, 406),
        ({"authenticationParameters": {"authenticationType": "GCP"}}, 406),
        ({"authenticationParameters": {"authenticationType": "NONE"}}, 400),
        ({"authenticationParameters": {"authenticationType": "BEARER"}}, 400),
        ({"authenticationParameters": {"authenticationType": "BEARER", "bearerToken": "t"}}, 400),
        ({"authenticationParameters": {"authenticationType": "SIGV4", "signingRegion": "x"}}, 400),
        ({"authenticationParameters": {"authenticationType": "SIGV4", "roleArn": "x", "signingRegion": "x"}}, 400),
        ({"uri": "https://far.example", "authenticationParameters": {**OAUTH, "tokenUri": "https://evil.test/"}}, 400),
        ({"uri": "https://far.example", "authenticationParameters": {**OAUTH, "tokenUri": "http://far.example/"}}, 400),
        ({"uri": "https://far.example", "authenticationParameters": {**OAUTH, "bearerToken": "t"}}, 400),
        ({"properties": {"lakebed.credentials-for": "everybody"}}, 400),
        ({"something": "else"}, 400),
    ],
)
async def test_invalid_connections_are_refused(lakes: TwoLakes, changes: dict[str, Any], status: int) -> None:
    refused = await send(lakes, "PUT", document={**CONNECTION, **changes})
    assert refused.status == status, refused
    assert (await send(lakes, "GET")).status == 404


async def test_role_replaces_an_access_key(lakes: TwoLakes) -> None:
    role = {
        "authenticationType": "SIGV4",
        "roleArn": "arn:aws:iam::123456789012:role/glue",
        "externalId": "e-1",
        "signingRegion": "us-west-2",
        "sessionPolicy": '{"Version": "2012-10-17"}',
    }
    created = await send(lakes, "PUT", document={**HTTPS, "authenticationParameters": role})
    returned = created.document["connectionConfigInfo"]["authenticationParameters"]
    assert returned == {**role, "signingName": "execute-api"}


async def test_catalog_with_namespaces_is_not_connected(lakes: TwoLakes) -> None:
    await lakes.call_ok("POST", "/namespaces", {"namespace": ["own"]})
    assert (await send(lakes, "PUT", document=CONNECTION)).error == (409, "CommitFailedException")
    await lakes.call_ok("DELETE", "/namespaces/own")
    assert (await send(lakes, "PUT", document=CONNECTION)).status == 200


async def test_connection_of_an_unknown_catalog_is_not_found(lakes: TwoLakes) -> None:
    for method, document in (("GET", None), ("PUT", CONNECTION), ("DELETE", None)):
        answer = await send(lakes, method, "/lakebed/v1/connections/ghost", document)
        assert answer.error == (404, "NoSuchWarehouseException")


async def test_connecting_requires_permission_to_create_catalogs(lakes: TwoLakes) -> None:
    management = lakes.management
    unprivileged = await lakes.near.user("unprivileged")
    reader = await lakes.near.user("tables", allow("s3tables:*"))
    allowed = await lakes.near.user("operator", allow("lakebed:ConfigureConnection"))
    catalog_admin = await lakes.member("catalog-admin", {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"})
    await management.principal("service-admin")
    await management.assign("service-admin", "service_admin")
    created = await lakes.near.access_keys.create("service-admin")
    service_admin = type(unprivileged)(created.key.id, created.secret.reveal())
    for keys in (unprivileged, reader, catalog_admin):
        for method, document in (("GET", None), ("PUT", CONNECTION), ("DELETE", None)):
            assert (await send(lakes, method, document=document, keys=keys)).status == 403
        assert (await send(lakes, "GET", "/lakebed/v1/connections", keys=keys)).status == 403
        assert (await send(lakes, "POST", f"{PATH}/check", keys=keys)).status == 403
    for keys in (allowed, service_admin):
        assert (await send(lakes, "PUT", document=CONNECTION, keys=keys)).status == 200
        assert (await send(lakes, "GET", "/lakebed/v1/connections", keys=keys)).status == 200
        assert (await send(lakes, "DELETE", keys=keys)).status == 204


async def test_unreachable_connection_fails_its_check(lakes: TwoLakes) -> None:
    await send(lakes, "PUT", document={**CONNECTION, "remoteCatalogName": "ghost"})
    tried = await send(lakes, "POST", f"{PATH}/check")
    assert tried.error == (502, "BadGatewayException")
    wrong = {**CONNECTION["authenticationParameters"], "secretAccessKey": "another-secret"}
    await send(lakes, "PUT", document={**CONNECTION, "authenticationParameters": wrong})
    tried = await send(lakes, "POST", f"{PATH}/check")
    assert tried.error == (502, "BadGatewayException")
    assert "another-secret" not in tried.body.decode()
