"""Access delegation: vended credentials and remote signing, and the files that they cover."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.iceberg.delegation import AccessMode, requested_mode
from tests.clients.boto import Keys

from .lake import HOST, ROOT_KEYS, Answer, Lake, allow, keys_in, opened_lake

VENDED, SIGNING = "vended-credentials", "remote-signing"
TABLE = "/lake/namespaces/ns/tables/t"
PLAIN = {"s3.endpoint": f"http://{HOST}", "s3.path-style-access": "true", "client.region": "us-east-1"}
TABLE_ACTIONS = ("s3tables:GetTable*", "s3tables:PutTableData")


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        yield opened


def credential(answer: Answer) -> dict[str, Any]:
    """The only entry of a response's storage credentials."""
    assert answer.status == 200, answer.body
    (entry,) = answer.document["storage-credentials"]
    assert isinstance(entry, dict)
    return entry


def table_directory(answer: Answer) -> str:
    """A table's directory, as a path in the object store."""
    location: str = answer.document["metadata"]["location"]
    return location.removeprefix("s3:/") + "/"


# -- requested access ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "mode"),
    [
        (None, None),
        ("", None),
        ("vended-credentials", AccessMode.VENDED),
        ("Vended-Credentials", AccessMode.VENDED),
        ("remote-signing", AccessMode.SIGNING),
        ("remote-signing,vended-credentials", AccessMode.VENDED),
        ("vended-credentials , remote-signing", AccessMode.VENDED),
        ("true", AccessMode.VENDED),
        (" TRUE ", AccessMode.VENDED),
        ("true,remote-signing", AccessMode.SIGNING),
        ("client-managed", None),
        ("client-managed,remote-signing", AccessMode.SIGNING),
        ("vended credentials", None),
    ],
)
def test_preferred_mode_of_the_requested_ones_is_chosen(header: str | None, mode: AccessMode | None) -> None:
    assert requested_mode(header) is mode


@given(st.text())
def test_any_header_is_accepted(header: str) -> None:
    assert requested_mode(header) in (None, *AccessMode)


async def test_client_without_delegation_gets_the_settings_of_the_store(lake: Lake) -> None:
    for answer in (await lake.table(), await lake.call("GET", TABLE), await lake.call("GET", TABLE, access="none")):
        assert answer.document["config"] == PLAIN
        assert "storage-credentials" not in answer.document


async def test_vended_credentials_have_all_settings_of_clients(lake: Lake) -> None:
    created = await lake.table(access=VENDED)
    loaded = await lake.call("GET", TABLE, access=VENDED)
    refreshed = await lake.call("GET", f"{TABLE}/credentials")
    expires_ms = lake.clock.now_ms() + 900_000
    prefix = f"{created.document['metadata']['location']}/"
    description = {
        "lakebed.credential-vending": "supported",
        "lakebed.credential-mode": "catalog-vended-temporary-credentials",
        "lakebed.credential-scope": "table-prefix",
        "lakebed.credential-scope-prefix": prefix,
        "lakebed.credential-expiration-unix-seconds": str(expires_ms // 1000),
    }
    for answer in (created, loaded, refreshed):
        entry = credential(answer)
        assert entry["prefix"] == prefix
        keys = keys_in(entry["config"])
        assert keys.access_key.startswith("LKBT")
        assert entry["config"] == PLAIN | description | {
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            "s3.session-token": keys.session_token,
            "s3.session-token-expires-at-ms": str(expires_ms),
            "client.refresh-credentials-endpoint": f"v1{TABLE}/credentials",
            "client.refresh-credentials-enabled": "true",
        }
    for answer in (created, loaded):
        # For clients without support for `storage-credentials`.
        assert answer.document["config"] == credential(answer)["config"]
    assert refreshed.document["config"] == description
    assert (refreshed.headers["cache-control"], refreshed.headers["pragma"], refreshed.headers["expires"]) == (
        "no-store, private",
        "no-cache",
        "0",
    )


async def test_refresh_endpoint_works_for_any_table_name(lake: Lake) -> None:
    await lake.call("POST", "/lake/namespaces", {"namespace": ["a b", "c%d"]})
    path = f"/lake/namespaces/{quote(chr(31).join(['a b', 'c%d']), safe='')}/tables"
    created = await lake.call("POST", path, {"name": "é+t", "schema": _schema(await lake.table())}, access=VENDED)
    endpoint = credential(created)["config"]["client.refresh-credentials-endpoint"]
    refreshed = await lake.send("GET", f"/iceberg/{endpoint}")
    assert credential(refreshed)["prefix"] == credential(created)["prefix"]


def _schema(answer: Answer) -> object:
    return answer.document["metadata"]["schemas"][0]


async def test_registered_table_has_vended_credentials(lake: Lake) -> None:
    created = await lake.table()
    metadata_location = created.document["metadata-location"]
    await lake.call("DELETE", TABLE)
    registered = await lake.call(
        "POST", "/lake/namespaces/ns/register", {"name": "t", "metadata-location": metadata_location}, access=VENDED
    )
    keys = keys_in(credential(registered)["config"])
    assert (await lake.send("PUT", f"{table_directory(created)}f", b"1", keys=keys)).status == 200


async def test_signing_settings_have_the_names_of_all_clients(lake: Lake) -> None:
    await lake.table()
    answer = await lake.call("GET", TABLE, access=SIGNING)
    config = answer.document["config"]
    assert config["s3.remote-signing-enabled"] == "true"
    assert config["signer.uri"] == config["s3.signer.uri"] == f"http://{HOST}/iceberg"
    assert config["signer.endpoint"].partition("?")[0] == f"v1{TABLE}/sign"
    # Clients that sign for all tables at one endpoint know it; the setting would redirect other clients there.
    assert "s3.signer.endpoint" not in config
    assert "s3.access-key-id" not in config
    assert "storage-credentials" not in answer.document


async def test_configured_endpoint_replaces_the_host_of_the_request(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, endpoint="https://s3.example/") as lake:
        await lake.table()
        assert (await lake.call("GET", TABLE)).document["config"]["s3.endpoint"] == "https://s3.example"


# -- permissions -----------------------------------------------------------------------------------------------------


async def test_credentials_require_only_permissions_on_the_table(lake: Lake) -> None:
    path = table_directory(await lake.table())
    engine = await lake.user("engine", allow(*TABLE_ACTIONS))
    keys = keys_in(credential(await lake.call("GET", TABLE, keys=engine, access=VENDED))["config"])
    assert (await lake.send("PUT", f"{path}data/f", b"rows", keys=keys)).status == 200
    assert (await lake.send("GET", f"{path}data/f", keys=keys)).body == b"rows"
    assert (await lake.send("GET", f"/lake?list-type=2&prefix={path.removeprefix('/lake/')}", keys=keys)).status == 200
    assert (await lake.send("DELETE", f"{path}data/f", keys=keys)).status == 204
    # The user's own keys have no S3 permissions.
    assert (await lake.send("PUT", f"{path}data/f", b"rows", keys=engine)).status == 403


async def test_read_permission_gives_read_only_credentials(lake: Lake) -> None:
    path = table_directory(await lake.table())
    await lake.send("PUT", f"{path}f", b"rows")
    analyst = await lake.user("analyst", allow("s3tables:GetTable*"))
    for answer in (
        await lake.call("GET", TABLE, keys=analyst, access=VENDED),
        await lake.call("GET", f"{TABLE}/credentials", keys=analyst),
    ):
        keys = keys_in(credential(answer)["config"])
        assert (await lake.send("GET", f"{path}f", keys=keys)).body == b"rows"
        for method in ("PUT", "DELETE"):
            assert (await lake.send(method, f"{path}f", keys=keys)).status == 403
        assert (await lake.send("POST", f"{path}f?uploads=", keys=keys)).status == 403


@pytest.mark.parametrize("access", [VENDED, SIGNING])
async def test_caller_without_read_permission_gets_no_access(lake: Lake, access: str) -> None:
    await lake.table()
    viewer = await lake.user("viewer", allow("s3tables:GetTable", "s3tables:GetTableMetadataLocation", "s3:*"))
    assert (await lake.call("GET", TABLE, keys=viewer)).status == 200
    assert (await lake.call("GET", TABLE, keys=viewer, access=access)).error == (403, "ForbiddenException")
    assert (await lake.call("GET", f"{TABLE}/credentials", keys=viewer)).error == (403, "ForbiddenException")


async def test_created_table_is_returned_without_credentials_if_they_are_not_permitted(lake: Lake) -> None:
    """An error would suggest that the table was not created."""
    creator = await lake.user("creator", allow("s3tables:CreateTable"))
    created = await lake.table(keys=creator, access=VENDED)
    assert created.status == 200
    assert created.document["config"] == PLAIN
    assert "storage-credentials" not in created.document


async def test_missing_table_is_reported_only_with_read_permission(lake: Lake) -> None:
    unprivileged = await lake.user("unprivileged")
    assert (await lake.call("GET", f"{TABLE}/credentials")).error == (404, "NoSuchTableException")
    assert (await lake.call("GET", f"{TABLE}/credentials", keys=unprivileged)).error == (403, "ForbiddenException")


async def test_vended_credentials_cannot_call_the_catalog(lake: Lake) -> None:
    keys = keys_in(credential(await lake.table(access=VENDED))["config"])
    for method, path in (("GET", TABLE), ("GET", f"{TABLE}/credentials"), ("DELETE", TABLE)):
        assert (await lake.call(method, path, keys=keys)).error == (403, "ForbiddenException")


async def test_credentials_for_an_sts_session_expire_with_it(lake: Lake) -> None:
    await lake.table()
    policy = quote(json.dumps({"Version": "2012-10-17", "Statement": [allow("s3tables:*")]}))
    form = f"Action=AssumeRole&Version=2011-06-15&DurationSeconds=900&Policy={policy}".encode()
    issued = (await lake.send("POST", "/", form, {"content-type": "application/x-www-form-urlencoded"})).body.decode()
    access_key, secret_key, token = (
        issued.partition(f"<{name}>")[2].partition("<")[0]
        for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")
    )
    session = Keys(access_key, secret_key, token)
    lake.clock.advance(600)
    entry = credential(await lake.call("GET", TABLE, keys=session, access=VENDED))
    assert entry["config"]["s3.session-token-expires-at-ms"] == str(lake.clock.now_ms() + 300_000)
    path = f"/{entry['prefix'].removeprefix('s3://')}f"
    assert (await lake.send("PUT", path, b"1", keys=keys_in(entry["config"]))).status == 200
    assert (await lake.send("PUT", path, b"1", keys=session)).status == 403


# -- expiry ----------------------------------------------------------------------------------------------------------


async def test_credentials_expire(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, ttl_seconds=60) as lake:
        created = await lake.table(access=VENDED)
        path, keys = f"{table_directory(created)}f", keys_in(credential(created)["config"])
        lake.clock.advance(59)
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 200
        lake.clock.advance(1)
        refused = await lake.send("GET", path, keys=keys)
        assert refused.status == 400
        assert b"<Code>ExpiredToken</Code>" in refused.body
        fresh = keys_in(credential(await lake.call("GET", f"{TABLE}/credentials"))["config"])
        assert (await lake.send("GET", path, keys=fresh)).status == 200


async def test_credentials_end_with_the_access_key_that_requested_them(lake: Lake) -> None:
    path = table_directory(await lake.table())
    engine = await lake.user("engine", allow(*TABLE_ACTIONS))
    keys = keys_in(credential(await lake.call("GET", TABLE, keys=engine, access=VENDED))["config"])
    await lake.access_keys.set_enabled(engine.access_key, enabled=False)
    refused = await lake.send("PUT", f"{path}f", b"1", keys=keys)
    assert (refused.status, b"InvalidAccessKeyId" in refused.body) == (403, True)


async def test_cached_response_is_not_revalidated_when_its_credentials_expire_soon(lake: Lake) -> None:
    """Other catalogs answered 304, and clients continued with expired credentials."""
    await lake.table()
    first = await lake.call("GET", TABLE, access=VENDED)
    tag = first.headers["etag"]
    lake.clock.advance(449)
    assert (await lake.call("GET", TABLE, access=VENDED, if_none_match=tag)).status == 304
    lake.clock.advance(1)
    second = await lake.call("GET", TABLE, access=VENDED, if_none_match=tag)
    assert second.status == 200
    assert keys_in(credential(second)["config"]) != keys_in(credential(first)["config"])


async def test_cached_response_without_credentials_is_not_revalidated_for_a_request_with_access(lake: Lake) -> None:
    await lake.table()
    tag = (await lake.call("GET", TABLE)).headers["etag"]
    assert (await lake.call("GET", TABLE, if_none_match=tag)).status == 304
    for access in (VENDED, SIGNING):
        assert (await lake.call("GET", TABLE, access=access, if_none_match=tag)).status == 200


# -- staged tables ---------------------------------------------------------------------------------------------------


async def test_credentials_of_a_staged_table_work_before_and_after_its_commit(lake: Lake) -> None:
    engine = await lake.user("engine", allow("s3tables:*"))
    staged = await lake.table(keys=engine, access=VENDED, stage_create=True)
    keys = keys_in(credential(staged)["config"])
    path = table_directory(staged)
    assert staged.document["metadata-location"] is None
    assert (await lake.send("PUT", f"{path}data/f", b"rows", keys=keys)).status == 200
    metadata = staged.document["metadata"]
    commit = {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": metadata["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": metadata["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": metadata["location"]},
        ],
    }
    committed = await lake.call("POST", TABLE, commit, keys=engine)
    assert committed.status == 200, committed.body
    assert (await lake.send("PUT", f"{path}data/g", b"rows", keys=keys)).status == 200


async def test_staged_table_gets_credentials_even_if_signing_is_requested(lake: Lake) -> None:
    staged = await lake.table(access=SIGNING, stage_create=True)
    keys = keys_in(credential(staged)["config"])
    assert (await lake.send("PUT", f"{table_directory(staged)}data/f", b"rows", keys=keys)).status == 200
    assert "s3.remote-signing-enabled" not in staged.document["config"]


@pytest.mark.parametrize("by", ["location", "write.data.path", "write.metadata.path"])
async def test_cve_2026_42809_staged_create_vends_no_credentials_for_taken_locations(lake: Lake, by: str) -> None:
    victim = (await lake.table("victim")).document["metadata"]["location"]
    for location in (victim, f"{victim}/data", "s3://elsewhere/t", "s3://lake/.lakebed/t", "s3://lake/"):
        more = {"location": location} if by == "location" else {"properties": {by: location}}
        refused = await lake.table(access=VENDED, stage_create=True, **more)
        assert refused.error == (400, "BadRequestException")


async def test_staged_create_with_access_requires_write_permission(lake: Lake) -> None:
    creator = await lake.user("creator", allow("s3tables:CreateTable"))
    assert (await lake.table(keys=creator, stage_create=True)).status == 200
    refused = await lake.table("u", keys=creator, access=VENDED, stage_create=True)
    assert refused.error == (403, "ForbiddenException")


async def test_several_directories_have_one_credentials_entry(lake: Lake) -> None:
    """Clients that refresh credentials require exactly one."""
    created = await lake.table(
        access=VENDED, location="s3://lake/home/t", properties={"write.data.path": "s3://lake/far/data"}
    )
    entry = credential(created)
    assert entry["prefix"] == "s3://lake/home/t/"
    keys = keys_in(created.document["config"])
    for path in ("/lake/home/t/f", "/lake/far/data/f"):
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 200
    for path in ("/lake/far/f", "/lake/home/f", "/lake/far/data10/f"):
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 403


async def test_credentials_are_vended_at_every_base_path(lake: Lake) -> None:
    await lake.table()
    for mount in ("/_iceberg", "/api/catalog"):
        answer = await lake.send("GET", f"{mount}/v1{TABLE}/credentials", keys=ROOT_KEYS)
        assert credential(answer)["prefix"]
        signing = await lake.send("GET", f"{mount}/v1{TABLE}", headers={"x-iceberg-access-delegation": SIGNING})
        assert signing.document["config"]["signer.uri"] == f"http://{HOST}{mount}"
