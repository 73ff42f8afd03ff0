"""Staged and dropped tables, whose files clients access with a hint in the URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.locations.directories import PATH_PROPERTIES
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request
from lakebed.wire.iceberg.unregistered_table_hint import UnregisteredTableHint, hint_of_request
from tests.clients.boto import Keys

from .lake import HOST, ROOT_KEYS, Answer, Lake, allow, keys_in, opened_lake

TABLE = "/lake/namespaces/ns/tables/t"
ENDPOINT = "client.refresh-credentials-endpoint"
SOME_ID = "0123456789abcdef" * 2


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        yield opened


def settings_of(answer: Answer) -> dict[str, str]:
    """The settings in a response's storage credentials."""
    assert answer.status == 200, answer.body
    (entry,) = answer.document["storage-credentials"]
    config: dict[str, str] = entry["config"]
    return config


def request_with(query: str) -> Request:
    return Request("GET", "/", query, {}, RequestBody(0), "http", "127.0.0.1", "R1")


def endpoint_of(table: str, location: str, name: str = "t") -> str:
    """The refresh endpoint with a hint."""
    return f"/iceberg/v1/lake/namespaces/ns/tables/{name}/credentials{UnregisteredTableHint(table, location).query}"


async def sign(lake: Lake, endpoint: str, method: str, path: str, keys: Keys = ROOT_KEYS) -> Answer:
    document = {"region": "us-east-1", "uri": f"http://{HOST}{path}", "method": method, "headers": {}}
    return await lake.call("POST", endpoint.removeprefix("v1"), document, keys=keys)


# -- the hint -------------------------------------------------------------------------------------------------------


@given(st.from_regex(r"[0-9a-f]{32}", fullmatch=True), st.text(), st.dictionaries(st.text(), st.text(min_size=1)))
def test_hint_round_trips(table: str, location: str, properties: dict[str, str]) -> None:
    hint = UnregisteredTableHint(table, location, {"write.data.path": "s3://lake/far", **properties})
    kept = {name: path for name, path in hint.properties.items() if name in PATH_PROPERTIES}
    assert hint_of_request(request_with(hint.query.removeprefix("?"))) == UnregisteredTableHint(table, location, kept)


@given(st.text() | st.binary().map(lambda noise: noise.hex()) | st.from_regex(r"[A-Za-z0-9_-]{1,80}", fullmatch=True))
def test_random_text_is_refused(text: str) -> None:
    request = request_with("")
    request.query["whereabouts"] = text
    with pytest.raises(InvalidInput):
        hint_of_request(request)


@pytest.mark.parametrize("wrong", [{"table": "t"}, {"table": SOME_ID.upper()}])
def test_invalid_table_ids_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        hint_of_request(
            request_with(UnregisteredTableHint(**{"location": "s3://lake/a", **wrong}).query.removeprefix("?"))
        )


# -- staged tables ---------------------------------------------------------------------------------------------------


async def test_credentials_of_a_staged_table_are_refreshed_before_its_commit(lake: Lake) -> None:
    far = {"write.data.path": "s3://lake/far"}
    engine = await lake.user("engine", allow("s3tables:*"))
    settings = settings_of(
        await lake.table(keys=engine, access="vended-credentials", stage_create=True, properties=far)
    )
    for _ in range(3):
        lake.clock.advance(901)
        assert (await lake.send("PUT", "/lake/far/f", b"rows", keys=keys_in(settings))).status == 400
        fresh = settings_of(await lake.send("GET", f"/iceberg/{settings[ENDPOINT]}", keys=engine))
        assert (await lake.send("PUT", "/lake/far/f", b"rows", keys=keys_in(fresh))).status == 200
        assert fresh[ENDPOINT] == settings[ENDPOINT]
        settings = fresh


async def test_refresh_endpoint_of_a_staged_table_works_after_its_commit(lake: Lake) -> None:
    staged = await lake.table(access="vended-credentials", stage_create=True)
    endpoint = settings_of(staged)[ENDPOINT]
    location = staged.document["metadata"]["location"]
    await lake.table(location=location)
    fresh = settings_of(await lake.send("GET", f"/iceberg/{endpoint}"))
    assert fresh[ENDPOINT] == f"v1{TABLE}/credentials"
    assert fresh["lakebed.credential-scope-prefix"] == f"{location}/"


async def test_credentials_for_free_directories_require_permission_to_create_and_read(lake: Lake) -> None:
    path = endpoint_of(SOME_ID, "s3://lake/free")
    for actions in (("s3tables:PutTableData", "s3tables:GetTableData", "s3:*"), ("s3tables:CreateTable",)):
        user = await lake.user(f"user-{len(actions)}", allow(*actions))
        assert (await lake.send("GET", path, keys=user)).error == (403, "ForbiddenException")
    reader = await lake.user("reader", allow("s3tables:CreateTable", "s3tables:GetTableData"))
    keys = keys_in(settings_of(await lake.send("GET", path, keys=reader)))
    assert (await lake.send("PUT", "/lake/free/f", b"1", keys=keys)).status == 403


async def test_hint_with_directories_of_another_table_gives_no_access(lake: Lake) -> None:
    created = await lake.table(location="s3://lake/home/t")
    its_id = created.document["metadata"]["table-uuid"].replace("-", "")
    for location in ("s3://lake/home/t", "s3://lake/home/t/data", "s3://lake/home"):
        assert (await lake.send("GET", endpoint_of(SOME_ID, location, "free"))).error[0] == 400
        assert (await lake.send("GET", endpoint_of(its_id, location, "free"))).error[0] == 403
    # Nor does the id of another table with a free directory.
    assert (await lake.send("GET", endpoint_of(its_id, "s3://lake/elsewhere", "free"))).error[0] == 403


@pytest.mark.parametrize("location", ["s3://other/t", "s3://lake", "s3://lake/.lakebed/t", "s3://lake/a/../b", "t", ""])
async def test_hint_with_an_invalid_location_is_refused(lake: Lake, location: str) -> None:
    assert (await lake.send("GET", endpoint_of(SOME_ID, location))).error == (400, "BadRequestException")


# -- dropped tables --------------------------------------------------------------------------------------------------


async def test_deletion_of_files_is_signed_after_a_drop(lake: Lake) -> None:
    engine = await lake.user("engine", allow("s3tables:*"))
    await lake.table(location="s3://lake/home/t")
    loaded = await lake.call("GET", TABLE, keys=engine, access="remote-signing")
    endpoint = loaded.document["config"]["signer.endpoint"]
    await lake.call("DELETE", TABLE, keys=engine)
    for method in ("HEAD", "GET", "DELETE"):
        signed = await sign(lake, endpoint, method, "/lake/home/t/f", engine)
        assert signed.status == 200, signed.body
        returned = {name: ",".join(values) for name, values in signed.document["headers"].items()}
        assert (await lake.send(method, "/lake/home/t/f", headers=returned, keys=None)).status in (204, 404)
    assert (await sign(lake, endpoint, "GET", "/lake/home/other", engine)).error[0] == 403
    await lake.table("other", location="s3://lake/home/t")
    assert (await sign(lake, endpoint, "DELETE", "/lake/home/t/f", engine)).error[0] == 400


async def test_deletion_of_files_of_a_restorable_table_is_not_signed(lake: Lake) -> None:
    await lake.call("POST", "/buckets/lake/properties", {"updates": {"undrop-window-seconds": "3600"}})
    await lake.table(location="s3://lake/home/t")
    endpoint = (await lake.call("GET", TABLE, access="remote-signing")).document["config"]["signer.endpoint"]
    await lake.call("DELETE", TABLE)
    assert (await sign(lake, endpoint, "HEAD", "/lake/home/t/f")).status == 200
    for method in ("GET", "DELETE"):
        assert (await sign(lake, endpoint, method, "/lake/home/t/f")).error == (404, "NoSuchTableException")
