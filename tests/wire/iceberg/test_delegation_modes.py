"""Disabled credential vending and remote signing, and refused client locations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from lakebed.core.delegation import AccessDelegation

from .lake import HOST, SCHEMA, Answer, Lake, allow, keys_in, opened_lake

VENDED, SIGNING, BOTH = "vended-credentials", "remote-signing", "vended-credentials,remote-signing"
TABLES = "/lake/namespaces/ns/tables"
TABLE = f"{TABLES}/t"
SECRETS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")

Open = Callable[[AccessDelegation], AbstractAsyncContextManager[Lake]]


@asynccontextmanager
async def opened_at(folder: Path, level: str, delegation: AccessDelegation) -> AsyncIterator[Lake]:
    """A server with this access delegation, by its setting or by the property of the catalog."""
    if level == "server":
        async with opened_lake(folder, access_delegation=delegation) as lake:
            yield lake
        return
    async with opened_lake(folder) as lake:
        change = {"updates": {"access-delegation": delegation.value}}
        assert (await lake.call("POST", "/buckets/lake/properties", change)).status == 200
        yield lake


@pytest.fixture(params=["server", "catalog"])
def open_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return partial(opened_at, tmp_path, request.param)


def assert_scope_without_secrets(answer: Answer) -> None:
    assert answer.status == 200, answer.body
    document = answer.document
    prefix = f"{document['metadata']['location']}/"
    (entry,) = document["storage-credentials"]
    assert entry["prefix"] == prefix
    for config in (document["config"], entry["config"]):
        assert config["lakebed.credential-vending"] == "disabled"
        assert config["lakebed.credential-scope-prefix"] == prefix
        assert config["s3.endpoint"] == f"http://{HOST}"
        assert not config.keys() & {*SECRETS, "client.refresh-credentials-endpoint", "s3.remote-signing-enabled"}


async def sign(lake: Lake, table: str = TABLE) -> Answer:
    location = (await lake.call("GET", table)).document["metadata"]["location"]
    uri = f"http://{HOST}/{location.removeprefix('s3://')}/data/f"
    document = {"region": "us-east-1", "uri": uri, "method": "GET", "headers": {}}
    return await lake.call("POST", f"{table}/sign", document)


async def test_without_delegation_tables_have_the_scope_without_secrets(open_lake: Open) -> None:
    async with open_lake(AccessDelegation.NONE) as lake:
        for access in (VENDED, SIGNING, BOTH, "true"):
            assert_scope_without_secrets(await lake.table(f"t{access[:1]}{len(access)}", access=access))
        await lake.table()
        assert_scope_without_secrets(await lake.call("GET", TABLE, access=BOTH))
        assert_scope_without_secrets(await lake.table("staged", access=BOTH, stage_create=True))


@pytest.mark.parametrize("delegation", [AccessDelegation.NONE, AccessDelegation.SIGNING])
@pytest.mark.parametrize("access", [None, SIGNING])
async def test_load_returns_the_scope_prefix_for_all_requested_modes(
    open_lake: Open, delegation: AccessDelegation, access: str | None
) -> None:
    async with open_lake(delegation) as lake:
        await lake.table()
        loaded = (await lake.call("GET", TABLE, access=access)).document
        config = loaded["config"]
        assert config["lakebed.credential-vending"] == "disabled"
        assert config["lakebed.credential-scope-prefix"] == f"{loaded['metadata']['location']}/"
        assert not config.keys() & set(SECRETS)
        assert config.get("s3.remote-signing-enabled", "false") == str(bool(delegation.signs and access)).lower()


async def test_cached_response_without_access_is_not_revalidated_for_a_request_with_access(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, access_delegation=AccessDelegation.NONE) as lake:
        await lake.table()
        plain = await lake.call("GET", TABLE)
        assert "storage-credentials" not in plain.document
        assert_scope_without_secrets(await lake.call("GET", TABLE, access=VENDED, if_none_match=plain.headers["etag"]))


async def test_without_delegation_refresh_and_signing_are_refused(open_lake: Open) -> None:
    async with open_lake(AccessDelegation.NONE) as lake:
        created = await lake.table()
        renewed = await lake.call("GET", f"{TABLE}/credentials")
        assert renewed.status == 200
        assert renewed.document["storage-credentials"] == []
        assert renewed.document["config"]["lakebed.credential-scope-prefix"] == (
            f"{created.document['metadata']['location']}/"
        )
        unprivileged = await lake.user("unprivileged", allow("s3tables:GetTable"))
        assert (await lake.call("GET", f"{TABLE}/credentials", keys=unprivileged)).status == 403
        assert (await sign(lake)).error == (403, "ForbiddenException")


async def test_signing_only_mode_vends_no_credentials(open_lake: Open) -> None:
    async with open_lake(AccessDelegation.SIGNING) as lake:
        await lake.table()
        assert_scope_without_secrets(await lake.call("GET", TABLE, access=VENDED))
        assert (await lake.call("GET", f"{TABLE}/credentials")).document["storage-credentials"] == []
        for access in (SIGNING, BOTH):
            loaded = (await lake.call("GET", TABLE, access=access)).document
            assert loaded["config"]["s3.remote-signing-enabled"] == "true"
            assert "storage-credentials" not in loaded
            assert not loaded["config"].keys() & set(SECRETS)
        assert (await sign(lake)).status == 200


async def test_signing_only_mode_signs_for_staged_tables(open_lake: Open) -> None:
    async with open_lake(AccessDelegation.SIGNING) as lake:
        engine = await lake.user("engine", allow("s3tables:*"))
        staged = (await lake.table("t", keys=engine, access=BOTH, stage_create=True)).document
        assert not staged["config"].keys() & set(SECRETS)
        path = f"/{staged['metadata']['location'].removeprefix('s3://')}/data/f"
        document = {"region": "us-east-1", "uri": f"http://{HOST}{path}", "method": "PUT", "headers": {}}
        at = f"/iceberg/{staged['config']['signer.endpoint']}"
        signed = json.loads((await lake.send("POST", at, json.dumps(document).encode(), keys=engine)).body)
        headers = {name: values[0] for name, values in signed["headers"].items()}
        assert (await lake.send("PUT", path, b"rows", headers, keys=None)).status == 200


@pytest.mark.parametrize(
    ("server", "catalog", "effective"),
    [
        (AccessDelegation.SIGNING, AccessDelegation.VENDED, AccessDelegation.SIGNING),
        (AccessDelegation.VENDED, AccessDelegation.NONE, AccessDelegation.NONE),
        (AccessDelegation.NONE, AccessDelegation.VENDED, AccessDelegation.NONE),
        (AccessDelegation.SIGNING, AccessDelegation.NONE, AccessDelegation.NONE),
        (AccessDelegation.VENDED, AccessDelegation.VENDED, AccessDelegation.VENDED),
    ],
)
async def test_effective_delegation_is_the_narrower_of_server_and_catalog(
    tmp_path: Path, server: AccessDelegation, catalog: AccessDelegation, effective: AccessDelegation
) -> None:
    async with opened_lake(tmp_path, access_delegation=server) as lake:
        change = {"updates": {"access-delegation": catalog.value}}
        described = await lake.call("POST", "/buckets/lake/properties", change)
        assert described.document["credential-vending"] == ("supported" if effective.vends else "disabled")
        defaults = (await lake.call("GET", "/config?warehouse=lake")).document["defaults"]
        assert defaults["lakebed.access-delegation"] == effective.value
        loaded = await lake.table(access=VENDED)
        (entry,) = loaded.document["storage-credentials"]
        assert ("s3.access-key-id" in entry["config"]) is effective.vends


async def test_cached_response_with_credentials_is_not_revalidated_after_delegation_is_disabled(tmp_path: Path) -> None:
    async with opened_lake(tmp_path) as lake:
        await lake.table()
        tag = (await lake.call("GET", TABLE, access=VENDED)).headers["etag"]
        assert (await lake.call("GET", TABLE, access=VENDED, if_none_match=tag)).status == 304
        change = {"updates": {"access-delegation": "none"}}
        assert (await lake.call("POST", "/buckets/lake/properties", change)).status == 200
        assert_scope_without_secrets(await lake.call("GET", TABLE, access=VENDED, if_none_match=tag))


async def test_signing_only_mode_vends_no_credentials_for_generic_tables(open_lake: Open) -> None:
    async with open_lake(AccessDelegation.SIGNING) as lake:
        document = {"name": "g", "format": "delta", "base-location": "s3://lake/generic/g"}
        sent = {"polaris-generic-table-access-delegation": VENDED}
        path = "/polaris/v1/lake/namespaces/ns/generic-tables"
        created = await lake.send("POST", path, json.dumps(document).encode(), sent)
        assert created.status == 200
        assert created.document["storage-access-configs"] == []


async def test_unknown_property_values_are_refused(tmp_path: Path) -> None:
    async with opened_lake(tmp_path) as lake:
        for name in ("access-delegation", "client-locations"):
            answer = await lake.call("POST", "/buckets/lake/properties", {"updates": {name: "maybe"}})
            assert answer.error == (400, "BadRequestException")
            assert name in answer.document["error"]["message"]


# -- client locations --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def without_client_locations(folder: Path, level: str) -> AsyncIterator[Lake]:
    async with opened_lake(folder, client_locations=level == "catalog") as lake:
        if level == "catalog":
            change = {"updates": {"client-locations": "refused"}}
            assert (await lake.call("POST", "/buckets/lake/properties", change)).status == 200
        yield lake


@pytest.mark.parametrize("level", ["server", "catalog"])
async def test_client_locations_are_refused(tmp_path: Path, level: str) -> None:
    async with without_client_locations(tmp_path, level) as lake:

        async def commit(table: str, update: dict[str, object]) -> Answer:
            return await lake.call("POST", f"{TABLES}/{table}", {"requirements": [], "updates": [update]})

        assert (await lake.table("own")).status == 200
        elsewhere = "s3://lake/elsewhere"
        moves: tuple[Awaitable[Answer], ...] = (
            lake.table("t", location=elsewhere),
            lake.table("t", location=elsewhere, stage_create=True, access=VENDED),
            lake.table("t", properties={"write.data.path": elsewhere}),
            commit("own", {"action": "set-location", "location": elsewhere}),
            commit("own", {"action": "set-properties", "updates": {"write.metadata.path": elsewhere}}),
        )
        for move in moves:
            answer = await move
            assert answer.error == (400, "BadRequestException")
            assert "clients cannot choose" in answer.document["error"]["message"]
        assert (await commit("own", {"action": "set-properties", "updates": {"a": "1"}})).status == 200


@pytest.mark.parametrize("level", ["server", "catalog"])
async def test_locations_assigned_by_the_server_are_accepted(tmp_path: Path, level: str) -> None:
    """Locations of staged tables, which the commit repeats, and locations in the namespace's directory, for Trino."""
    async with without_client_locations(tmp_path, level) as lake:
        staged = (await lake.table("t", stage_create=True, access=VENDED)).document
        keys = keys_in(staged["config"])
        location = staged["metadata"]["location"]
        path = f"/{location.removeprefix('s3://')}/data/f"
        assert (await lake.send("PUT", path, b"rows", keys=keys)).status == 200
        updates = [
            {"action": "assign-uuid", "uuid": staged["metadata"]["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": location},
        ]
        document = {"requirements": [{"type": "assert-create"}], "updates": updates}
        assert (await lake.call("POST", TABLE, document)).status == 200
        assigned = (await lake.call("GET", "/lake/namespaces/ns")).document["properties"]["location"]
        assert (await lake.table("u", location=f"{assigned}/u-1")).status == 200
