from __future__ import annotations

from uuid import uuid4

import pytest

from tests.wire.iceberg.lake import Lake

from .tables_with_data import TABLE, append, pointer, set_property, table_with_data

LOCATION = TABLE + "/metadata-location"
ROLLBACK = TABLE + "/catalog/rollback"


async def test_pointer_has_its_version_token(lake: Lake) -> None:
    created = (await lake.table()).document
    found = await pointer(lake)
    assert found["metadata-location"] == created["metadata-location"]
    assert found["warehouse-location"] == created["metadata"]["location"]
    assert found["generation"] == 1
    assert found["version-token"]


@pytest.mark.parametrize("camel", [False, True])
async def test_pointer_is_moved(lake: Lake, camel: bool) -> None:
    first = (await lake.table()).document["metadata-location"]
    await set_property(lake, "a", "1")
    now = await pointer(lake)
    names = ("metadataLocation", "versionToken") if camel else ("metadata-location", "version-token")
    moved = await lake.call("PUT", LOCATION, dict(zip(names, (first, now["version-token"]), strict=True)))
    assert moved.status == 200
    assert moved.document == await pointer(lake)
    assert moved.document.keys() == now.keys()
    assert (moved.document["metadata-location"], moved.document["generation"]) == (first, 3)


async def test_stale_token_is_a_conflict_even_with_other_errors(lake: Lake) -> None:
    await lake.table()
    for location in ("s3://nowhere/x.metadata.json", "not a location", "s3://lake/../x"):
        stale = {"metadata-location": location, "version-token": "stale"}
        assert (await lake.call("PUT", LOCATION, stale)).error == (409, "CommitFailedException")
        assert (await lake.call("POST", ROLLBACK, stale)).error == (409, "CommitFailedException")


async def test_invalid_moves_are_refused(lake: Lake) -> None:
    await lake.table()
    token = (await pointer(lake))["version-token"]
    other = (await lake.table("other")).document["metadata-location"]
    for document in (
        {"metadata-location": "s3://lake/absent.metadata.json", "version-token": token},
        {"metadata-location": other, "version-token": token},
        {"metadata-location": other},
        {"version-token": token},
        {"metadata-location": other, "version-token": token, "force": True},
    ):
        for method, path in (("PUT", LOCATION), ("POST", ROLLBACK)):
            assert (await lake.call(method, path, document)).error == (400, "BadRequestException")
    assert (await pointer(lake))["version-token"] == token


async def test_missing_table_is_not_found(lake: Lake) -> None:
    absent = "/lake/namespaces/ns/tables/none"
    document = {"metadata-location": "s3://lake/x", "version-token": "x"}
    for method, path in (("GET", "metadata-location"), ("PUT", "metadata-location"), ("POST", "catalog/rollback")):
        answer = await lake.call(method, f"{absent}/{path}", None if method == "GET" else document)
        assert answer.error == (404, "NoSuchTableException")


async def test_rollback_past_a_snapshot_commits_forward(lake: Lake) -> None:
    before = await table_with_data(lake)
    after = await append(lake)
    rolled = await lake.call(
        "POST",
        ROLLBACK,
        {"metadata-location": before["metadata-location"], "version-token": after["version-token"]},
    )
    assert rolled.status == 200
    document = rolled.document
    assert document["rollback-mode"] == "forward"
    assert document["metadata"]["current-snapshot-id"] == before["metadata"]["current-snapshot-id"]
    assert document["metadata"]["last-sequence-number"] == after["metadata"]["last-sequence-number"]
    assert (await lake.call("GET", TABLE)).document["metadata"] == document["metadata"]


async def test_rollback_of_properties_moves_the_pointer(lake: Lake) -> None:
    first = (await lake.table()).document
    now = await set_property(lake, "a", "1")
    rolled = await lake.call(
        "POST",
        ROLLBACK,
        {
            "metadata-location": first["metadata-location"],
            "version-token": now["version-token"],
            "commit-id": "back",
        },
    )
    assert rolled.document["rollback-mode"] == "pointer"
    assert rolled.document["metadata-location"] == first["metadata-location"]
    assert rolled.document["commit-id"] == "back"


async def test_repeated_moves_get_the_first_response(lake: Lake) -> None:
    first = (await lake.table()).document["metadata-location"]
    now = await set_property(lake, "a", "1")
    document = {"metadata-location": first, "version-token": now["version-token"]}
    for method, path in (("PUT", LOCATION), ("POST", ROLLBACK)):
        key = str(uuid4())
        created = await lake.call(method, path, document, idempotency_key=key)
        repeated = await lake.call(method, path, document, idempotency_key=key)
        assert created.status == repeated.status == 200
        assert created.document["version-token"] == repeated.document["version-token"]
        now = await set_property(lake, "b", path)
        document = {"metadata-location": first, "version-token": now["version-token"]}


async def test_commit_that_names_a_file_is_a_move_too(lake: Lake) -> None:
    first = (await lake.table()).document["metadata-location"]
    now = await set_property(lake, "a", "1")
    other = (await lake.table("other")).document["metadata-location"]
    document = {
        "expected-version-token": now["version-token"],
        "expected-metadata-location": now["metadata-location"],
        "new-metadata-location": first,
    }
    foreign = await lake.call("POST", TABLE, {**document, "new-metadata-location": other})
    assert foreign.error == (400, "BadRequestException")
    stale = await lake.call("POST", TABLE, {**document, "expected-metadata-location": first})
    assert stale.error == (409, "CommitFailedException")
    assert (await lake.call("POST", TABLE, document)).document["metadata-location"] == first
