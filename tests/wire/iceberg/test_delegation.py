"""What a client is given to reach a table's files, and what it can do with it."""

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
CATALOG_RIGHTS = ("s3tables:GetTable*", "s3tables:PutTableData")


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        yield opened


def credential(answer: Answer) -> dict[str, Any]:
    """The one entry of an answer's storage credentials."""
    assert answer.status == 200, answer.body
    (entry,) = answer.document["storage-credentials"]
    assert isinstance(entry, dict)
    return entry


def home(answer: Answer) -> str:
    """A table's directory, as a path."""
    location: str = answer.document["metadata"]["location"]
    return location.removeprefix("s3:/") + "/"


# -- what was asked for ----------------------------------------------------------------------------------------------


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
def test_mode_is_the_best_of_those_that_the_client_knows(header: str | None, mode: AccessMode | None) -> None:
    assert requested_mode(header) is mode


@given(st.text())
def test_any_header_is_read(header: str) -> None:
    assert requested_mode(header) in (None, *AccessMode)


async def test_client_that_asks_for_nothing_is_told_where_the_store_is(lake: Lake) -> None:
    for answer in (await lake.table(), await lake.call("GET", TABLE), await lake.call("GET", TABLE, access="none")):
        assert answer.document["config"] == PLAIN
        assert "storage-credentials" not in answer.document


async def test_keys_come_with_all_that_clients_look_for(lake: Lake) -> None:
    created = await lake.table(access=VENDED)
    loaded = await lake.call("GET", TABLE, access=VENDED)
    refreshed = await lake.call("GET", f"{TABLE}/credentials")
    expires_ms = lake.clock.now_ms() + 900_000
    prefix = f"{created.document['metadata']['location']}/"
    facts = {
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
        assert entry["config"] == PLAIN | facts | {
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            "s3.session-token": keys.session_token,
            "s3.session-token-expires-at-ms": str(expires_ms),
            "client.refresh-credentials-endpoint": f"v1{TABLE}/credentials",
            "client.refresh-credentials-enabled": "true",
        }
    for answer in (created, loaded):
        # For clients of before there were storage credentials.
        assert answer.document["config"] == credential(answer)["config"]
    assert refreshed.document["config"] == facts
    assert (refreshed.headers["cache-control"], refreshed.headers["pragma"], refreshed.headers["expires"]) == (
        "no-store, private",
        "no-cache",
        "0",
    )


async def test_refresh_endpoint_leads_to_the_table_whatever_its_name(lake: Lake) -> None:
    await lake.call("POST", "/lake/namespaces", {"namespace": ["a b", "c%d"]})
    path = f"/lake/namespaces/{quote(chr(31).join(['a b', 'c%d']), safe='')}/tables"
    made = await lake.call("POST", path, {"name": "é+t", "schema": _schema(await lake.table())}, access=VENDED)
    endpoint = credential(made)["config"]["client.refresh-credentials-endpoint"]
    refreshed = await lake.send("GET", f"/iceberg/{endpoint}")
    assert credential(refreshed)["prefix"] == credential(made)["prefix"]


def _schema(answer: Answer) -> object:
    return answer.document["metadata"]["schemas"][0]


async def test_registered_table_comes_with_keys(lake: Lake) -> None:
    made = await lake.table()
    where = made.document["metadata-location"]
    await lake.call("DELETE", TABLE)
    again = await lake.call(
        "POST", "/lake/namespaces/ns/register", {"name": "t", "metadata-location": where}, access=VENDED
    )
    keys = keys_in(credential(again)["config"])
    assert (await lake.send("PUT", f"{home(made)}f", b"1", keys=keys)).status == 200


async def test_signing_is_told_under_all_its_names(lake: Lake) -> None:
    await lake.table()
    answer = await lake.call("GET", TABLE, access=SIGNING)
    config = answer.document["config"]
    assert config["s3.remote-signing-enabled"] == "true"
    assert config["signer.uri"] == config["s3.signer.uri"] == f"http://{HOST}/iceberg"
    assert config["signer.endpoint"].partition("?")[0] == f"v1{TABLE}/sign"
    # Clients that send requests for all tables to one place know where that is; others would be led there.
    assert "s3.signer.endpoint" not in config
    assert "s3.access-key-id" not in config
    assert "storage-credentials" not in answer.document


async def test_endpoint_of_the_settings_is_told_in_place_of_the_clients(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, endpoint="https://s3.example/") as lake:
        await lake.table()
        assert (await lake.call("GET", TABLE)).document["config"]["s3.endpoint"] == "https://s3.example"


# -- who gets them ---------------------------------------------------------------------------------------------------


async def test_rights_to_the_table_are_enough(lake: Lake) -> None:
    path = home(await lake.table())
    engine = await lake.user("engine", allow(*CATALOG_RIGHTS))
    keys = keys_in(credential(await lake.call("GET", TABLE, keys=engine, access=VENDED))["config"])
    assert (await lake.send("PUT", f"{path}data/f", b"rows", keys=keys)).status == 200
    assert (await lake.send("GET", f"{path}data/f", keys=keys)).body == b"rows"
    assert (await lake.send("GET", f"/lake?list-type=2&prefix={path.removeprefix('/lake/')}", keys=keys)).status == 200
    assert (await lake.send("DELETE", f"{path}data/f", keys=keys)).status == 204
    # With its own keys it has no business there.
    assert (await lake.send("PUT", f"{path}data/f", b"rows", keys=engine)).status == 403


async def test_right_to_read_gives_keys_that_read(lake: Lake) -> None:
    path = home(await lake.table())
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
async def test_who_may_not_read_the_data_gets_nothing(lake: Lake, access: str) -> None:
    await lake.table()
    viewer = await lake.user("viewer", allow("s3tables:GetTable", "s3tables:GetTableMetadataLocation", "s3:*"))
    assert (await lake.call("GET", TABLE, keys=viewer)).status == 200
    assert (await lake.call("GET", TABLE, keys=viewer, access=access)).error == (403, "ForbiddenException")
    assert (await lake.call("GET", f"{TABLE}/credentials", keys=viewer)).error == (403, "ForbiddenException")


async def test_table_that_was_made_is_shown_without_keys_to_who_may_not_have_them(lake: Lake) -> None:
    """A refusal would say that it was not made."""
    founder = await lake.user("founder", allow("s3tables:CreateTable"))
    made = await lake.table(keys=founder, access=VENDED)
    assert made.status == 200
    assert made.document["config"] == PLAIN
    assert "storage-credentials" not in made.document


async def test_absent_table_is_told_to_who_may_read_tables(lake: Lake) -> None:
    stranger = await lake.user("stranger")
    assert (await lake.call("GET", f"{TABLE}/credentials")).error == (404, "NoSuchTableException")
    assert (await lake.call("GET", f"{TABLE}/credentials", keys=stranger)).error == (403, "ForbiddenException")


async def test_vended_keys_do_not_speak_to_the_catalog(lake: Lake) -> None:
    keys = keys_in(credential(await lake.table(access=VENDED))["config"])
    for method, path in (("GET", TABLE), ("GET", f"{TABLE}/credentials"), ("DELETE", TABLE)):
        assert (await lake.call(method, path, keys=keys)).error == (403, "ForbiddenException")


async def test_session_of_sts_gets_keys_within_its_life(lake: Lake) -> None:
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


# -- for how long ----------------------------------------------------------------------------------------------------


async def test_keys_expire(tmp_path: Path) -> None:
    async with opened_lake(tmp_path, ttl_seconds=60) as lake:
        made = await lake.table(access=VENDED)
        path, keys = f"{home(made)}f", keys_in(credential(made)["config"])
        lake.clock.advance(59)
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 200
        lake.clock.advance(1)
        refused = await lake.send("GET", path, keys=keys)
        assert refused.status == 400
        assert b"<Code>ExpiredToken</Code>" in refused.body
        fresh = keys_in(credential(await lake.call("GET", f"{TABLE}/credentials"))["config"])
        assert (await lake.send("GET", path, keys=fresh)).status == 200


async def test_keys_end_with_the_key_that_asked_for_them(lake: Lake) -> None:
    path = home(await lake.table())
    engine = await lake.user("engine", allow(*CATALOG_RIGHTS))
    keys = keys_in(credential(await lake.call("GET", TABLE, keys=engine, access=VENDED))["config"])
    await lake.access_keys.set_enabled(engine.access_key, enabled=False)
    refused = await lake.send("PUT", f"{path}f", b"1", keys=keys)
    assert (refused.status, b"InvalidAccessKeyId" in refused.body) == (403, True)


async def test_copy_of_the_answer_is_not_called_good_when_its_keys_are_about_to_expire(lake: Lake) -> None:
    """Other catalogs answered 304, and clients went on with keys that had expired."""
    await lake.table()
    first = await lake.call("GET", TABLE, access=VENDED)
    tag = first.headers["etag"]
    lake.clock.advance(449)
    assert (await lake.call("GET", TABLE, access=VENDED, if_none_match=tag)).status == 304
    lake.clock.advance(1)
    second = await lake.call("GET", TABLE, access=VENDED, if_none_match=tag)
    assert second.status == 200
    assert keys_in(credential(second)["config"]) != keys_in(credential(first)["config"])


async def test_copy_of_the_answer_without_keys_is_not_good_for_who_asks_for_keys(lake: Lake) -> None:
    await lake.table()
    tag = (await lake.call("GET", TABLE)).headers["etag"]
    assert (await lake.call("GET", TABLE, if_none_match=tag)).status == 304
    for access in (VENDED, SIGNING):
        assert (await lake.call("GET", TABLE, access=access, if_none_match=tag)).status == 200


# -- staged tables ---------------------------------------------------------------------------------------------------


async def test_staged_table_is_written_before_it_is_there_and_after(lake: Lake) -> None:
    engine = await lake.user("engine", allow("s3tables:*"))
    staged = await lake.table(keys=engine, access=VENDED, stage_create=True)
    keys = keys_in(credential(staged)["config"])
    path = home(staged)
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


async def test_staged_table_is_given_keys_where_signing_is_asked_for(lake: Lake) -> None:
    staged = await lake.table(access=SIGNING, stage_create=True)
    keys = keys_in(credential(staged)["config"])
    assert (await lake.send("PUT", f"{home(staged)}data/f", b"rows", keys=keys)).status == 200
    assert "s3.remote-signing-enabled" not in staged.document["config"]


@pytest.mark.parametrize("by", ["location", "write.data.path", "write.metadata.path"])
async def test_cve_2026_42809_staged_create_hands_out_no_keys_to_a_place_of_the_callers_choice(
    lake: Lake, by: str
) -> None:
    victim = (await lake.table("victim")).document["metadata"]["location"]
    for place in (victim, f"{victim}/data", "s3://elsewhere/t", "s3://lake/.lakebed/t", "s3://lake/"):
        more = {"location": place} if by == "location" else {"properties": {by: place}}
        refused = await lake.table(access=VENDED, stage_create=True, **more)
        assert refused.error == (400, "BadRequestException")


async def test_staged_create_is_refused_to_who_may_not_write(lake: Lake) -> None:
    founder = await lake.user("founder", allow("s3tables:CreateTable"))
    assert (await lake.table(keys=founder, stage_create=True)).status == 200
    refused = await lake.table("u", keys=founder, access=VENDED, stage_create=True)
    assert refused.error == (403, "ForbiddenException")


async def test_several_directories_have_one_entry_whose_keys_open_them_all(lake: Lake) -> None:
    """Clients that renew their keys insist on exactly one."""
    made = await lake.table(
        access=VENDED, location="s3://lake/home/t", properties={"write.data.path": "s3://lake/far/data"}
    )
    entry = credential(made)
    assert entry["prefix"] == "s3://lake/home/t/"
    keys = keys_in(made.document["config"])
    for path in ("/lake/home/t/f", "/lake/far/data/f"):
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 200
    for path in ("/lake/far/f", "/lake/home/f", "/lake/far/data10/f"):
        assert (await lake.send("PUT", path, b"1", keys=keys)).status == 403


async def test_other_mounts_hand_out_keys_too(lake: Lake) -> None:
    await lake.table()
    for mount in ("/_iceberg", "/api/catalog"):
        answer = await lake.send("GET", f"{mount}/v1{TABLE}/credentials", keys=ROOT_KEYS)
        assert credential(answer)["prefix"]
        signing = await lake.send("GET", f"{mount}/v1{TABLE}", headers={"x-iceberg-access-delegation": SIGNING})
        assert signing.document["config"]["signer.uri"] == f"http://{HOST}{mount}"
