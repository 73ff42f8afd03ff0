"""Published vulnerabilities of other catalogs, as requests to the APIs. `docs/security.md` lists all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.clients.boto import Keys
from tests.wire.management.management_client import ManagementClient

from .lake import HOST, SCHEMA, Answer, Lake, allow, keys_in, opened_lake

VENDED = "vended-credentials"
TABLE = "/lake/namespaces/ns/tables/t"


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table `victim` at `home/t10`, a file in it, and a file of no table."""
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table("victim", location="s3://lake/home/t10")).status == 200
        for path in ("/lake/home/t10/data/f", "/lake/loose"):
            assert (await opened.send("PUT", path, b"secret")).status == 200
        yield opened


def vended(answer: Answer) -> Keys:
    assert answer.status == 200, answer.body
    return keys_in(answer.document["storage-credentials"][0]["config"])


async def sign(lake: Lake, path: str, *, keys: Keys, table: str = TABLE) -> Answer:
    document = {"region": "us-east-1", "uri": f"http://{HOST}{path}", "method": "GET", "headers": {}}
    return await lake.call("POST", f"{table}/sign", document, keys=keys)


async def assert_no_other_access(lake: Lake, keys: Keys) -> None:
    for path in ("/lake/home/t10/data/f", "/lake/loose"):
        assert (await lake.send("GET", path, keys=keys)).status == 403
        assert (await lake.send("PUT", path, b"spoiled", keys=keys)).status == 403
        assert (await lake.send("DELETE", path, keys=keys)).status == 403
    for prefix in ("", "h", "home/", "home/t", "home/t1", "home/t10/"):
        assert (await lake.send("GET", f"/lake?list-type=2&prefix={prefix}", keys=keys)).status == 403
    assert (await lake.send("GET", "/lake/loose")).body == b"secret"


# -- names and locations with meaning in policies ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["*", "t*", "?", "a/b", ".."])
async def test_cve_2026_42810_names_with_wildcards_are_refused(lake: Lake, name: str) -> None:
    assert (await lake.table(name)).error[0] == 400
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": [name]})).error[0] == 400


@pytest.mark.parametrize("location", ["s3://lake/*", "s3://lake/home/*/t", "s3://lake/home/t?0"])
async def test_cve_2026_42810_locations_with_wildcards_are_refused(lake: Lake, location: str) -> None:
    for more in ({"location": location}, {"properties": {"write.data.path": location}}):
        assert (await lake.table(access=VENDED, **more)).error == (400, "BadRequestException")


async def test_cve_2026_42810_policy_variables_in_a_location_are_literal(lake: Lake) -> None:
    location = "home/${aws:username}/${*}"
    keys = vended(await lake.table(access=VENDED, location=f"s3://lake/{location}".replace("${*}", "$")))
    await assert_no_other_access(lake, keys)
    assert (await lake.send("GET", "/lake/home/root/x", keys=keys)).status == 403


@pytest.mark.parametrize(
    "name", ['q","Resource":"*"},{"Effect":"Allow","Action":"s3:*', "q') || true || ('", 'q"', "q\\", "q'; --"]
)
async def test_cve_2026_42811_quotes_in_names_and_locations_are_literal(lake: Lake, name: str) -> None:
    location = name.replace("*", "x").replace("\\", "_")
    created = await lake.table(location.replace("/", "_"), access=VENDED, location=f"s3://lake/home/{location}")
    keys = vended(created)
    inside = f"/lake/{quote(f'home/{location}/f')}"
    assert (await lake.send("PUT", inside, b"rows", keys=keys)).status == 200
    assert (await lake.send("GET", inside, keys=keys)).body == b"rows"
    await assert_no_other_access(lake, keys)


async def test_directories_are_compared_as_directories(lake: Lake) -> None:
    """`home/t` and `home/t10` are distinct for credentials and signatures, with and without a trailing slash."""
    for number, location in enumerate(("s3://lake/home/t", "s3://lake/home/t1/")):
        created = await lake.table(f"t{number}", access=VENDED, location=location)
        await assert_no_other_access(lake, vended(created))
    engine = await lake.user("engine", allow("s3tables:*"))
    for path in ("/lake/home/t10/data/f", "/lake/home/t/../t10/data/f", "/lake/home/t", "/lake/loose"):
        assert (await sign(lake, path, keys=engine, table="/lake/namespaces/ns/tables/t0")).error[0] in (400, 403)


# -- properties that redirect writes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("property_", ["write.metadata.path", "write.data.path", "write.object-storage.path"])
@pytest.mark.parametrize("path", ["s3://lake/home/t10/metadata", "s3://lake/.lakebed/x", "s3://elsewhere/x"])
async def test_cve_2026_42812_properties_that_redirect_writes_are_checked(
    lake: Lake, property_: str, path: str
) -> None:
    before = (await lake.table()).document["metadata-location"]
    updates = [{"action": "set-properties", "updates": {property_: path}}]
    refused = await lake.call("POST", TABLE, {"requirements": [], "updates": updates})
    assert refused.error == (400, "BadRequestException")
    changes = [{"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": updates}]
    refused = await lake.call("POST", "/lake/transactions/commit", {"table-changes": changes})
    assert refused.error == (400, "BadRequestException")
    assert (await lake.call("GET", TABLE)).document["metadata-location"] == before
    # Nothing was written to the location.
    keys = [row[0] for row in await lake.store.meta.rows("SELECT key FROM objects")]
    assert not [key for key in keys if key.startswith(("home/t10/metadata/x", ".lakebed/x", "x/"))]
    assert len([key for key in keys if key.startswith("home/t10/metadata/")]) == 1


async def test_table_properties_do_not_change_settings_of_clients(lake: Lake) -> None:
    steering = {
        "s3.endpoint": "http://elsewhere.example",
        "s3.access-key-id": "AKIAELSEWHERE",
        "s3.secret-access-key": "foreign-secret",
        "s3.signer.uri": "http://elsewhere.example",
        "io-impl": "com.example.Elsewhere",
    }
    assert (await lake.table(properties=steering)).status == 200
    plain = (await lake.call("GET", TABLE)).document
    # They are stored as table properties, but are not in the settings of clients.
    assert plain["metadata"]["properties"].items() >= steering.items()
    for access in ("vended-credentials", "remote-signing"):
        loaded = (await lake.call("GET", TABLE, access=access)).document
        configs = [loaded["config"], *(one["config"] for one in loaded.get("storage-credentials", ()))]
        for config in configs:
            assert not set(steering.values()) & set(config.values())
        assert any(config.get("s3.endpoint") == f"http://{HOST}" for config in configs)


async def test_restricted_allowed_locations_apply_to_existing_tables(lake: Lake) -> None:
    management = ManagementClient(lake)
    assert (await lake.send("PUT", "/sea")).status == 200
    storage = {"storageType": "S3", "allowedLocations": ["s3://sea/one/", "s3://sea/more/"]}
    properties = {"default-base-location": "s3://sea/one/"}
    catalog = {"type": "INTERNAL", "name": "one", "properties": properties, "storageConfigInfo": storage}
    await management.call_ok("POST", "/catalogs", {"catalog": catalog})
    assert (await lake.call("POST", "/one/namespaces", {"namespace": ["ns"]})).status == 200
    for name, location in (("t", "s3://sea/more/t"), ("u", "s3://sea/one/u")):
        document = {"name": name, "schema": SCHEMA, "location": location}
        assert (await lake.call("POST", "/one/namespaces/ns/tables", document, access=VENDED)).status == 200
    narrowed = {**storage, "allowedLocations": ["s3://sea/one/"]}
    await management.call_ok("PUT", "/catalogs/one", {"currentEntityVersion": 1, "storageConfigInfo": narrowed})
    path = "/one/namespaces/ns/tables"
    for answer in (
        await lake.call("GET", f"{path}/t", access=VENDED),
        await lake.call("GET", f"{path}/t/credentials"),
        await sign(lake, "/sea/more/t/f", keys=Keys("ROOTKEY", "root-secret-key"), table=f"{path}/t"),
    ):
        assert answer.error == (400, "BadRequestException")
    assert (await lake.call("GET", f"{path}/u", access=VENDED)).status == 200


# -- names in paths ----------------------------------------------------------------------------------------------------

TRICKS = (
    "ns10",
    "ns1",
    "n",
    "NS",
    "*",
    "ns*",
    "n%3F",
    "%2A",
    "ns%2F..%2Fns10",
    "ns10%2F..%2Fns",
    "ns%1F..%1Fns10",
    "ns%1F..",
    "..%2Fns10",
    "%2E%2E",
    "ns%00",
    "ns%1F",
    "%1Fns10",
    "ns%252F..",
    "ns10%20",
    "ns10.",
    "%24%7Baws%3Ausername%7D",
    "ns%27%20OR%20%271%27%3D%271",
)
"""Namespaces in paths, tried by a principal with access to `ns` only; `ns10` exists too."""


@pytest.fixture
async def siblings(lake: Lake) -> Lake:
    """A server with a table `t` in each of the namespaces `ns` and `ns10`."""
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": ["ns10"]})).status == 200
    document = {"name": "t", "schema": SCHEMA, "properties": {"mark": "of-ns10"}}
    assert (await lake.call("POST", "/lake/namespaces/ns10/tables", document)).status == 200
    assert (await lake.table()).status == 200
    return lake


async def assert_access_to_ns_only(lake: Lake, keys: Keys) -> None:
    assert (await lake.call("GET", TABLE, keys=keys)).status == 200
    for trick in TRICKS:
        for tail in ("", "/tables/t", "/tables"):
            answer = await lake.call("GET", f"/lake/namespaces/{trick}{tail}", keys=keys)
            assert answer.status in (400, 403, 404), (trick, answer)
            assert b"of-ns10" not in answer.body
    for path in ("/lake/namespaces/ns/../ns10/tables/t", "/lake/namespaces/ns//tables/t", "/lake/../lake/namespaces"):
        answer = await lake.call("GET", path, keys=keys)
        assert answer.status in (400, 403, 404), (path, answer)
        assert b"of-ns10" not in answer.body
    for table in ("*", "..%2F..%2Fns10%2Ftables%2Ft", "%2E%2E", "t%2F..%2Ft", "t%00", "t10"):
        answer = await lake.call("GET", f"/lake/namespaces/ns/tables/{table}", keys=keys)
        assert answer.status in (400, 403, 404), (table, answer)


async def test_policy_for_a_namespace_applies_to_that_namespace_in_any_spelling(siblings: Lake) -> None:
    condition = {"StringEquals": {"s3tables:namespace": "ns"}}
    keys = await siblings.user("bob", allow("s3tables:*") | {"Condition": condition})
    await assert_access_to_ns_only(siblings, keys)


async def test_grant_on_a_namespace_applies_to_that_namespace_in_any_spelling(siblings: Lake) -> None:
    grant = {"type": "namespace", "namespace": ["ns"], "privilege": "CATALOG_MANAGE_CONTENT"}
    keys = await ManagementClient(siblings).principal_with_grant("ann", **grant)
    await assert_access_to_ns_only(siblings, keys)


# -- revoked permissions -----------------------------------------------------------------------------------------------


async def session_of(lake: Lake, keys: Keys) -> Keys:
    form = b"Action=GetSessionToken&Version=2011-06-15&DurationSeconds=3600"
    sent = {"content-type": "application/x-www-form-urlencoded"}
    issued = (await lake.send("POST", "/", form, sent, keys=keys)).body.decode()
    access_key, secret_key, token = (
        issued.partition(f"<{name}>")[2].partition("<")[0]
        for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")
    )
    return Keys(access_key, secret_key, token)


async def test_revoked_permissions_end_with_the_next_request_of_every_session(lake: Lake) -> None:
    await lake.table()
    bob = await lake.user("bob", allow("s3tables:*", "s3:*", "sts:*"))
    session = await session_of(lake, bob)
    for keys in (bob, session):
        assert (await lake.call("GET", TABLE, keys=keys)).status == 200
        assert (await lake.send("GET", "/lake/loose", keys=keys)).status == 200
    await lake.principals.delete_policy("bob", "own")
    for keys in (bob, session):
        assert (await lake.call("GET", TABLE, keys=keys)).error == (403, "ForbiddenException")
        assert (await lake.call("GET", f"{TABLE}/credentials", keys=keys)).error == (403, "ForbiddenException")
        assert (await lake.send("GET", "/lake/loose", keys=keys)).status == 403


async def test_deny_statement_applies_to_vended_credentials(lake: Lake) -> None:
    created = await lake.table()
    path = "/" + created.document["metadata"]["location"].removeprefix("s3://") + "/f"
    bob = await lake.user("bob", allow("s3tables:*"))
    keys = vended(await lake.call("GET", TABLE, keys=bob, access=VENDED))
    assert (await lake.send("PUT", path, b"1", keys=keys)).status == 200
    denial = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}
    await lake.principals.put_policy("bob", "out", json.dumps(denial).encode())
    assert (await lake.send("GET", path, keys=keys)).status == 403
    await lake.principals.delete_policy("bob", "out")
    assert (await lake.send("GET", path, keys=keys)).status == 200
    await lake.principals.set_user_enabled("bob", enabled=False)
    assert (await lake.send("GET", path, keys=keys)).status == 403
