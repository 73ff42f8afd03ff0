"""Attempts to read files by claiming their directory: by a principal with every table permission and none in S3."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakebed.wire.iceberg.unregistered_table_hint import UnregisteredTableHint
from tests.catalog.harness import VIEW_VERSION
from tests.clients.boto import Keys
from tests.wire.management.management_client import ManagementClient

from .lake import HOST, SCHEMA, Answer, Lake, allow, keys_in, opened_lake, wire_lake

VENDED, SIGNING = "vended-credentials", "remote-signing"
TABLES = "/lake/namespaces/ns/tables"
SECRET = "/lake/other/deep/secret"
OTHER = "s3://lake/other"
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")

Claim = Callable[[Lake, Keys, str], Awaitable[Answer]]
"""Tries to claim a location for a table, and returns the deciding response."""


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with an object under `other/` that belongs to no table."""
    async with opened_lake(tmp_path) as opened:
        assert (await opened.send("PUT", SECRET, b"secret")).status == 200
        yield opened


@pytest.fixture
async def engine(lake: Lake) -> Keys:
    """Every permission on tables; in S3 only to read the metadata file to register."""
    return await lake.user("engine", allow("s3tables:*"), allow("s3:GetObject", resource="arn:aws:s3:::lake/given/*"))


# -- ways to claim a directory -----------------------------------------------------------------------------------------


def assert_create(location: str, table_uuid: str | None = None, **properties: str) -> dict[str, Any]:
    """The commit that creates a table, staged or not."""
    fresh = [
        {"action": "assign-uuid", "uuid": table_uuid or str(uuid4())},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": properties},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": fresh}


async def create(lake: Lake, keys: Keys, location: str) -> Answer:
    return await lake.table("claim", keys=keys, access=VENDED, location=location)


async def stage(lake: Lake, keys: Keys, location: str) -> Answer:
    return await lake.table("claim", keys=keys, access=VENDED, stage_create=True, location=location)


async def stage_without_delegation(lake: Lake, keys: Keys, location: str) -> Answer:
    return await lake.table("claim", keys=keys, stage_create=True, location=location)


async def commit_unstaged(lake: Lake, keys: Keys, location: str) -> Answer:
    return await lake.call("POST", f"{TABLES}/claim", assert_create(location), keys=keys)


async def create_own_table(lake: Lake, keys: Keys) -> str:
    created = await lake.table("claim", keys=keys)
    assert created.status == 200, created.body
    return str(created.document["metadata"]["table-uuid"])


async def move(lake: Lake, keys: Keys, location: str) -> Answer:
    await create_own_table(lake, keys)
    updates = [{"action": "set-location", "location": location}]
    return await lake.call("POST", f"{TABLES}/claim", {"requirements": [], "updates": updates}, keys=keys)


async def replace(lake: Lake, keys: Keys, location: str) -> Answer:
    """As CREATE OR REPLACE TABLE commits it."""
    uuid = await create_own_table(lake, keys)
    updates = [
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"replaced": "true"}},
    ]
    requirements = [{"type": "assert-table-uuid", "uuid": uuid}]
    return await lake.call("POST", f"{TABLES}/claim", {"requirements": requirements, "updates": updates}, keys=keys)


async def transaction(lake: Lake, keys: Keys, location: str) -> Answer:
    await create_own_table(lake, keys)
    updates = [{"action": "set-location", "location": location}]
    change = {"identifier": {"namespace": ["ns"], "name": "claim"}, "requirements": [], "updates": updates}
    return await lake.call("POST", "/lake/transactions/commit", {"table-changes": [change]}, keys=keys)


async def register(lake: Lake, keys: Keys, location: str) -> Answer:
    """Register a metadata file that the caller can read."""
    created = (await lake.table("model")).document["metadata"]
    document = json.dumps(created | {"location": location, "table-uuid": str(uuid4())}).encode()
    assert (await lake.send("PUT", "/lake/given/00001.metadata.json", document)).status == 200
    body = {"name": "claim", "metadata-location": "s3://lake/given/00001.metadata.json"}
    return await lake.call("POST", "/lake/namespaces/ns/register", body, keys=keys)


async def create_view(lake: Lake, keys: Keys, location: str) -> Answer:
    body = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}, "location": location}
    return await lake.call("POST", "/lake/namespaces/ns/views", body, keys=keys)


async def move_view(lake: Lake, keys: Keys, location: str) -> Answer:
    body = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    assert (await lake.call("POST", "/lake/namespaces/ns/views", body, keys=keys)).status == 200
    updates = [{"action": "set-location", "location": location}]
    return await lake.call("POST", "/lake/namespaces/ns/views/v", {"requirements": [], "updates": updates}, keys=keys)


async def create_generic_table(lake: Lake, keys: Keys, location: str) -> Answer:
    body = {"name": "claim", "format": "delta", "base-location": location}
    sent = {"polaris-generic-table-access-delegation": VENDED}
    path = "/polaris/v1/lake/namespaces/ns/generic-tables"
    return await lake.send("POST", path, json.dumps(body).encode(), sent, keys=keys)


def forged(location: str, **paths: str) -> str:
    return UnregisteredTableHint(uuid4().hex, location, paths).query


async def credentials_by_hint(lake: Lake, keys: Keys, location: str) -> Answer:
    return await lake.call("GET", f"{TABLES}/claim/credentials{forged(location)}", keys=keys)


async def signature_by_hint(lake: Lake, keys: Keys, location: str) -> Answer:
    body = {"region": "us-east-1", "uri": f"http://{HOST}{SECRET}", "method": "GET", "headers": {}}
    return await lake.call("POST", f"{TABLES}/claim/sign{forged(location)}", body, keys=keys)


CLAIMS = (
    create,
    stage,
    stage_without_delegation,
    commit_unstaged,
    move,
    replace,
    transaction,
    register,
    create_view,
    move_view,
    create_generic_table,
    credentials_by_hint,
    signature_by_hint,
)
each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)


def vended(answer: Answer) -> list[Keys]:
    """All credentials in a response."""
    document = answer.document
    configs = [one["config"] for one in document.get("storage-credentials", ())]
    configs += [document.get("config", {})]
    return [keys_in(config) for config in configs if "s3.access-key-id" in config]


async def assert_no_access(lake: Lake, keys: Keys, path: str = SECRET) -> None:
    assert (await lake.send("GET", path, keys=keys)).status == 403
    assert (await lake.send("PUT", path, b"spoiled", keys=keys)).status == 403
    assert (await lake.send("DELETE", path, keys=keys)).status == 403
    assert (await lake.send("GET", "/lake?list-type=2&prefix=other/", keys=keys)).status == 403


async def assert_refused(lake: Lake, answer: Answer, status: int = 403) -> None:
    assert answer.status == status, answer.body
    assert (await lake.send("GET", SECRET)).body == b"secret"


# -- objects without a table -------------------------------------------------------------------------------------------


@each_claim
@pytest.mark.parametrize("location", [OTHER, "s3a://lake/other/", "s3://lake/other/deep"])
async def test_directory_with_objects_cannot_be_claimed_without_permissions_on_them(
    lake: Lake, engine: Keys, claim: Claim, location: str
) -> None:
    answer = await claim(lake, engine, location)
    await assert_refused(lake, answer)
    assert "s3:" in answer.document["error"]["message"]
    await assert_no_access(lake, engine)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("way", ["create", "stage", "commit", "transaction", "assert-create", "credentials"])
async def test_path_properties_cannot_claim_foreign_objects(lake: Lake, engine: Keys, name: str, way: str) -> None:
    properties = {name: OTHER}
    if way in ("create", "stage"):
        answer = await lake.table(keys=engine, access=VENDED, properties=properties, stage_create=way == "stage")
    elif way == "assert-create":
        document = assert_create("s3://lake/fresh", None, **properties)
        answer = await lake.call("POST", f"{TABLES}/t", document, keys=engine)
    elif way == "credentials":
        path = f"{TABLES}/t/credentials{forged('s3://lake/fresh', **properties)}"
        answer = await lake.call("GET", path, keys=engine)
    else:
        await lake.table(keys=engine)
        updates = [{"action": "set-properties", "updates": properties}]
        change = {"requirements": [], "updates": updates}
        if way == "commit":
            answer = await lake.call("POST", f"{TABLES}/t", change, keys=engine)
        else:
            changes = [change | {"identifier": {"namespace": ["ns"], "name": "t"}}]
            answer = await lake.call("POST", "/lake/transactions/commit", {"table-changes": changes}, keys=engine)
    await assert_refused(lake, answer)


@pytest.mark.parametrize("left", ["upload", "old-version", "delete-marker"])
async def test_directory_with_a_version_or_an_upload_is_not_empty(lake: Lake, engine: Keys, left: str) -> None:
    if left == "upload":
        assert (await lake.send("POST", "/lake/hidden/f?uploads")).status == 200
    else:
        versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        assert (await lake.send("PUT", "/lake?versioning", versioning)).status == 200
        if left == "old-version":
            assert (await lake.send("PUT", "/lake/hidden/f", b"secret")).status == 200
        assert (await lake.send("DELETE", "/lake/hidden/f")).status == 204
    assert (await create(lake, engine, "s3://lake/hidden")).status == 403


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/other//",
        "s3://lake//other",
        "s3://lake/./other",
        "s3://lake/x/../other",
        "s3://lake/other/deep/..",
        "s3://lake/other\\",
        "S3://lake/other",
        "s3://lake",
        "s3://elsewhere/other",
        "https://lake/other",
        "file:///lake/other",
        "s3://lake/oth*",
    ],
)
async def test_spellings_of_a_location_never_claim_another_directory(lake: Lake, engine: Keys, location: str) -> None:
    for answer in (
        await create(lake, engine, location),
        await stage(lake, engine, location),
        await commit_unstaged(lake, engine, location),
        await credentials_by_hint(lake, engine, location),
    ):
        assert answer.status in (400, 403), answer.body
        assert not vended(answer)


@pytest.mark.parametrize("location", ["s3://lake/oth", "s3://lake/Other", "s3://lake/%6Fther", "s3://lake/other%2F"])
async def test_similar_location_is_another_directory(lake: Lake, engine: Keys, location: str) -> None:
    created = await create(lake, engine, location)
    assert created.status == 200, created.body
    for keys in vended(created):
        await assert_no_access(lake, keys)
    body = {"region": "us-east-1", "uri": f"http://{HOST}/lake/%6Fther/deep/secret", "method": "GET", "headers": {}}
    assert (await lake.call("POST", f"{TABLES}/claim/sign", body, keys=engine)).error[0] in (400, 403)


async def test_catalog_cannot_claim_locations_of_another_catalog(lake: Lake, engine: Keys) -> None:
    management = ManagementClient(lake)
    assert (await lake.send("PUT", "/sea")).status == 200
    storage = {"storageType": "S3", "allowedLocations": ["s3://sea/sales/"]}
    properties = {"default-base-location": "s3://sea/sales/"}
    catalog = {"type": "INTERNAL", "name": "sales", "properties": properties, "storageConfigInfo": storage}
    await management.call_ok("POST", "/catalogs", {"catalog": catalog})
    assert (await lake.send("PUT", "/sea/sales/loose", b"secret")).status == 200
    await lake.call("POST", "/sales/namespaces", {"namespace": ["ns"]}, keys=engine)
    for location, status in (("s3://lake/other", 400), ("s3://sea/loose", 400), ("s3://sea/sales", 400)):
        body = {"name": "t", "schema": SCHEMA, "location": location}
        assert (await lake.call("POST", "/sales/namespaces/ns/tables", body, keys=engine)).status == status


async def test_location_of_a_namespace_gives_no_access(lake: Lake, engine: Keys) -> None:
    body = {"namespace": ["sly"], "properties": {"location": OTHER}}
    assert (await lake.call("POST", "/lake/namespaces", body, keys=engine)).status == 200
    document = {"name": "t", "schema": SCHEMA}
    path = "/lake/namespaces/sly/tables"
    created = await lake.call("POST", path, document, keys=engine, access=VENDED)
    assert not created.document["metadata"]["location"].startswith(OTHER)
    for keys in vended(created):
        await assert_no_access(lake, keys)
    # Some engines derive table locations from the namespace.
    for name in ("", "/deep"):
        body = {"name": "u", "schema": SCHEMA, "location": f"{OTHER}{name}"}
        await assert_refused(lake, await lake.call("POST", path, body, keys=engine, access=VENDED))


async def test_renamed_table_keeps_its_directory(lake: Lake, engine: Keys) -> None:
    """A new table of the old name gets neither the directory nor credentials for it."""
    created = await lake.table("t", keys=engine, location="s3://lake/mine", access=VENDED)
    old = created.document["metadata"]["table-uuid"].replace("-", "")
    names = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert (await lake.call("POST", "/lake/tables/rename", names, keys=engine)).status == 204
    query = UnregisteredTableHint(old, "s3://lake/mine", {}).query
    assert (await lake.call("GET", f"{TABLES}/t/credentials{query}", keys=engine)).status == 403
    assert (await create(lake, engine, "s3://lake/mine")).status == 400


# -- dropped tables ----------------------------------------------------------------------------------------------------


async def drop_victim(lake: Lake, location: str = "s3://lake/home/t") -> None:
    """Drop a table of another user and keep its files."""
    assert (await lake.table("victim", location=location)).status == 200
    assert (await lake.send("PUT", f"/{location.removeprefix('s3://')}/data/f", b"secret")).status == 200
    assert (await lake.call("DELETE", f"{TABLES}/victim")).status == 204


@each_claim
@pytest.mark.parametrize(
    "location", ["s3://lake/home/t", "s3://lake/home", "s3://lake/home/t/data", "s3://lake/home/t/new"]
)
async def test_directory_of_a_dropped_table_stays_claimed_until_its_files_are_deleted(
    lake: Lake, engine: Keys, claim: Claim, location: str
) -> None:
    await drop_victim(lake)
    assert (await claim(lake, engine, location)).status == 403
    await assert_no_access(lake, engine, "/lake/home/t/data/f")


async def test_directory_of_a_dropped_table_is_free_after_its_files_are_deleted(lake: Lake, engine: Keys) -> None:
    await drop_victim(lake)
    listed = [row[0] for row in await lake.store.meta.rows("SELECT key FROM objects WHERE key LIKE 'home/t/%'")]
    for key in listed:
        assert (await lake.send("DELETE", f"/lake/{key}")).status == 204
    assert (await create(lake, engine, "s3://lake/home")).status == 200


async def test_directory_of_a_restorable_table_cannot_be_claimed(lake: Lake, engine: Keys) -> None:
    window = {"updates": {"undrop-window-seconds": "3600"}}
    assert (await lake.call("POST", "/buckets/lake/properties", window)).status == 200
    await drop_victim(lake)
    owner = await lake.user("owner", allow("s3tables:*", "s3:*"))
    for keys in (engine, owner):
        assert (await create(lake, keys, "s3://lake/home/t")).status == 400
        assert (await create(lake, keys, "s3://lake/home")).status == 400


async def test_dropping_principal_deletes_the_files_with_new_credentials(lake: Lake, engine: Keys) -> None:
    """Engines delete the files after the drop, with credentials that no other principal gets."""
    created = await lake.table("t", keys=engine, location="s3://lake/mine")
    identity = created.document["metadata"]["table-uuid"].replace("-", "")
    query = UnregisteredTableHint(identity, "s3://lake/mine", {}).query
    assert (await lake.call("DELETE", f"{TABLES}/t", keys=engine)).status == 204
    other = await lake.user("other", allow("s3tables:*"))
    path = f"{TABLES}/t/credentials{query}"
    assert (await lake.call("GET", path, keys=other)).status == 403
    fresh = await lake.call("GET", path, keys=engine)
    assert fresh.status == 200, fresh.body
    key = created.document["metadata-location"].removeprefix("s3:/")
    assert (await lake.send("DELETE", key, keys=vended(fresh)[0])).status == 204
    wider = UnregisteredTableHint(identity, "s3://lake/mine", {"write.data.path": OTHER}).query
    assert (await lake.call("GET", f"{TABLES}/t/credentials{wider}", keys=engine)).status == 403


async def test_dropping_principal_cannot_read_later_objects_in_the_directory(lake: Lake, engine: Keys) -> None:
    """Neither with credentials from before the drop, nor with those for the deletion of files."""
    created = await lake.table("t", keys=engine, access=VENDED, location="s3://lake/incoming")
    (before, *_) = vended(created)
    query = UnregisteredTableHint(
        created.document["metadata"]["table-uuid"].replace("-", ""), "s3://lake/incoming", {}
    ).query
    assert (await lake.call("DELETE", f"{TABLES}/t", keys=engine)).status == 204
    (after, *_) = vended(await lake.call("GET", f"{TABLES}/t/credentials{query}", keys=engine))
    plain = await lake.user("plain", allow("s3:*"))
    assert (await lake.send("PUT", "/lake/incoming/upload", b"secret", keys=plain)).status == 403
    lake.clock.advance(3601.0)
    assert (await lake.send("PUT", "/lake/incoming/upload", b"secret", keys=plain)).status == 200
    for keys in (before, after):
        assert (await lake.send("GET", "/lake/incoming/upload", keys=keys)).status in (400, 403)
    assert (await lake.call("GET", f"{TABLES}/t/credentials{query}", keys=engine)).status == 403


# -- staged tables -----------------------------------------------------------------------------------------------------


async def test_staged_table_is_committed_at_its_staged_location(lake: Lake, engine: Keys) -> None:
    staged = await stage(lake, engine, "s3://lake/mine")
    (keys, *_) = vended(staged)
    assert (await lake.send("PUT", "/lake/mine/data/f", b"rows", keys=keys)).status == 200
    renewed = await lake.send(
        "GET", f"/iceberg/{staged.document['config']['client.refresh-credentials-endpoint']}", keys=engine
    )
    assert renewed.status == 200, renewed.body
    uuid = staged.document["metadata"]["table-uuid"]
    created = await lake.call("POST", f"{TABLES}/claim", assert_create("s3://lake/mine", uuid), keys=engine)
    assert created.status == 200, created.body


async def test_directory_of_a_staged_table_is_reserved_for_its_creator(lake: Lake, engine: Keys) -> None:
    """Other principals can neither claim it nor put objects there, which the vended credentials could read."""
    assert (await stage(lake, engine, "s3://lake/mine")).status == 200
    other = await lake.user("other", allow("s3tables:*", "s3:*"))
    for location in ("s3://lake/mine", "s3://lake/mine/inside"):
        assert (await lake.table("x", keys=other, location=location)).status == 400
        assert (await lake.table("x", keys=other, location=location, stage_create=True)).status == 400
    plain = await lake.user("plain", allow("s3:*"))
    assert (await lake.send("PUT", "/lake/mine/upload", b"secret", keys=plain)).status == 403
    assert (await lake.send("PUT", "/lake/minefield", b"fine", keys=plain)).status == 200


async def test_reservation_of_a_staged_table_expires(lake: Lake, engine: Keys) -> None:
    assert (await stage(lake, engine, "s3://lake/mine")).status == 200
    lake.clock.advance(25 * 3600.0)
    plain = await lake.user("plain", allow("s3:*"))
    assert (await lake.send("PUT", "/lake/mine/upload", b"secret", keys=plain)).status == 200
    document = assert_create("s3://lake/mine")
    assert (await lake.call("POST", f"{TABLES}/claim", document, keys=engine)).status == 403


async def test_staging_again_replaces_the_earlier_staged_table(lake: Lake, engine: Keys) -> None:
    """As after a failed engine, which left its files."""
    (keys, *_) = vended(await stage(lake, engine, "s3://lake/mine"))
    assert (await lake.send("PUT", "/lake/mine/data/f", b"rows", keys=keys)).status == 200
    restaged = await stage(lake, engine, "s3://lake/mine")
    assert restaged.status == 200, restaged.body
    assert (await create(lake, engine, "s3://lake/mine")).status == 200


async def test_reservation_is_valid_for_one_table(lake: Lake, engine: Keys) -> None:
    """After a drop without its files, the same reservation does not claim the directory again."""
    staged = await stage(lake, engine, "s3://lake/mine")
    uuid = staged.document["metadata"]["table-uuid"]
    document = assert_create("s3://lake/mine", uuid)
    assert (await lake.call("POST", f"{TABLES}/claim", document, keys=engine)).status == 200
    assert (await lake.call("DELETE", f"{TABLES}/claim")).status == 204
    assert (await create(lake, engine, "s3://lake/mine")).status == 403


# -- permissions in S3 -------------------------------------------------------------------------------------------------

ON_KEYS = (
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)
ON_BUCKET = ("s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:GetBucketLocation")


@each_claim
async def test_principal_with_the_s3_permissions_of_the_credentials_can_claim(lake: Lake, claim: Claim) -> None:
    owner = await lake.user(
        "owner",
        allow("s3tables:*"),
        allow(*ON_KEYS, resource="arn:aws:s3:::lake/*"),
        allow(*ON_BUCKET, resource="arn:aws:s3:::lake"),
    )
    answer = await claim(lake, owner, OTHER)
    assert answer.status in (200, 204), answer.body


@pytest.mark.parametrize("missing", [*ON_KEYS, "s3:ListBucket", "s3:ListBucketMultipartUploads"])
async def test_every_s3_permission_of_the_credentials_is_required(lake: Lake, missing: str) -> None:
    owner = await lake.user(
        "owner",
        allow("s3tables:*"),
        allow(*(one for one in ON_KEYS if one != missing), resource="arn:aws:s3:::lake/*"),
        allow(*(one for one in ON_BUCKET if one != missing), resource="arn:aws:s3:::lake"),
    )
    answer = await create(lake, owner, OTHER)
    await assert_refused(lake, answer)
    assert missing in answer.document["error"]["message"]


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/other/*"},
        {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/other/deep/secret"},
        {"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::lake/*/secret"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::lake/o?her/*cre*"},
        {"Effect": "Deny", "Action": "s3:PutObject", "NotResource": "arn:aws:s3:::lake/other/deep/*"},
    ],
)
@pytest.mark.parametrize("policy", ["bucket", "identity"])
async def test_deny_statement_inside_the_directory_prevents_a_claim(
    lake: Lake, statement: dict[str, str], policy: str
) -> None:
    """Otherwise another principal would get credentials for objects that are denied to the claimant."""
    everything = allow("s3tables:*", "s3:*")
    owner = await lake.user("owner", everything, *([statement] if policy == "identity" else []))
    if policy == "bucket":
        document = {"Version": "2012-10-17", "Statement": [statement | {"Principal": "*"}]}
        # The policy denies root as well.
        assert (await lake.send("PUT", "/lake?policy", json.dumps(document).encode())).status == 204
    assert (await create(lake, owner, OTHER)).status == 403
    assert (await create(lake, owner, "s3://lake/fresh")).status == 200


@pytest.mark.parametrize(
    "statement",
    [
        allow("s3:*", resource="arn:aws:s3:::lake/other/deep/secret"),
        allow("s3:*", resource="arn:aws:s3:::lake/other/d*"),
        allow("s3:*", resource="arn:aws:s3:::lake/other/?*?/secret"),
        allow("s3:*", resource="arn:aws:s3:::lake/*/*/*"),
        allow("s3:*", resource="arn:aws:s3:::lake/other/*-*"),
        allow("s3:*", resource="arn:aws:s3:::lake/other/??*"),
        allow("s3:*", resource="arn:aws:s3:::lake/oth"),
        {"Effect": "Allow", "Action": "s3:*", "NotResource": "arn:aws:s3:::lake/other/deep/secret"},
    ],
)
async def test_permission_on_a_part_of_the_directory_is_not_enough(lake: Lake, statement: dict[str, object]) -> None:
    tables = allow("s3tables:*", resource="arn:aws:s3tables:*:*:bucket/*")
    listings = allow("s3:List*", "s3:GetBucketLocation", resource="arn:aws:s3:::lake")
    owner = await lake.user("owner", tables, listings, statement)
    await assert_refused(lake, await create(lake, owner, OTHER))


async def test_permission_on_a_folder_object_does_not_cover_its_content(lake: Lake) -> None:
    owner = await lake.user(
        "owner",
        allow("s3tables:*"),
        allow("s3:List*", "s3:GetBucketLocation"),
        {"Effect": "Allow", "Action": "s3:*", "NotResource": "arn:aws:s3:::lake/other/deep/*"},
        allow("s3:*", resource="arn:aws:s3:::lake/other/deep/"),
    )
    await assert_refused(lake, await create(lake, owner, OTHER))


# -- the identity of another table -------------------------------------------------------------------------------------


async def test_uuid_of_another_table_gives_no_access_to_its_directories(lake: Lake, engine: Keys) -> None:
    """Nor does an error reveal which files exist."""
    victim = (await lake.table("victim", location="s3://lake/home/t")).document["metadata"]["table-uuid"]
    for listing in ("s3://lake/home/t/metadata/there.avro", "s3://lake/home/t/metadata/missing.avro"):
        document = assert_create("s3://lake/home/t", victim)
        snapshot = {
            "snapshot-id": 1,
            "sequence-number": 1,
            "timestamp-ms": lake.clock.now_ms(),
            "manifest-list": listing,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        document["updates"].append({"action": "add-snapshot", "snapshot": snapshot})
        answer = await lake.call("POST", f"{TABLES}/claim", document, keys=engine)
        assert answer.status == 409, answer.body
        assert "uuid" in answer.document["error"]["message"]
    query = UnregisteredTableHint(victim.replace("-", ""), "s3://lake/home/t", {}).query
    assert (await lake.call("GET", f"{TABLES}/claim/credentials{query}", keys=engine)).status == 403


@pytest.mark.parametrize("listing", ["s3://lake/other/deep/secret", "s3://lake/other/deep/missing"])
async def test_errors_do_not_reveal_which_objects_exist(lake: Lake, engine: Keys, listing: str) -> None:
    document = assert_create(OTHER)
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": lake.clock.now_ms(),
        "manifest-list": listing,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    document["updates"].append({"action": "add-snapshot", "snapshot": snapshot})
    answer = await lake.call("POST", f"{TABLES}/claim", document, keys=engine)
    await assert_refused(lake, answer)
    assert listing not in answer.document["error"]["message"]


# -- metadata files that clients can change ----------------------------------------------------------------------------

CHANGED = "/mine/00001.metadata.json"


async def changed_after_registration(
    lake: Lake, changes: Mapping[str, object] = {"location": OTHER}, *, kind: str = "table"
) -> tuple[Lake, Keys]:
    """A worker without cached metadata, and a caller with permissions on tables and on a bucket without tables.

    The caller registered a metadata file in that bucket, and has overwritten it since.
    """
    assert (await lake.send("PUT", "/mine")).status == 200
    keys = await lake.user("engine", allow("s3tables:*"), allow("s3:*", resource="arn:aws:s3:::mine/*"))
    if kind == "table":
        created = await lake.table("model", keys=keys)
        path, identity = "/lake/namespaces/ns/register", "table-uuid"
    else:
        body = {"name": "model", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
        created = await lake.call("POST", "/lake/namespaces/ns/views", body, keys=keys)
        path, identity = "/lake/namespaces/ns/register-view", "view-uuid"
    document = created.document["metadata"] | {"location": "s3://lake/mine", identity: str(uuid4())}
    assert (await lake.send("PUT", CHANGED, json.dumps(document).encode(), keys=keys)).status == 200
    body = {"name": "claim", "metadata-location": f"s3:/{CHANGED}"}
    registered = await lake.call("POST", path, body, keys=keys)
    assert registered.status == 200, registered.body
    written = json.dumps(document | changes).encode()
    assert (await lake.send("PUT", CHANGED, written, keys=keys)).status == 200
    return wire_lake(lake.store), keys


async def test_commit_deletes_and_writes_nothing_in_locations_of_an_overwritten_metadata_file(lake: Lake) -> None:
    cleaning = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    log = [{"timestamp-ms": 1, "metadata-file": f"s3:/{SECRET}"}]
    changes = {"location": OTHER, "properties": cleaning, "metadata-log": log}
    worker, keys = await changed_after_registration(lake, changes)
    updates = [{"action": "set-properties", "updates": {"a": "1"}}]
    await assert_refused(
        worker, await worker.call("POST", f"{TABLES}/claim", {"requirements": [], "updates": updates}, keys=keys)
    )
    updates.append({"action": "set-location", "location": "s3://lake/mine"})
    await assert_refused(
        worker, await worker.call("POST", f"{TABLES}/claim", {"requirements": [], "updates": updates}, keys=keys)
    )
    assert (await lake.send("GET", "/lake?list-type=2&prefix=other/metadata/")).body.count(b"<Key>") == 0
    for one in vended(await worker.call("GET", f"{TABLES}/claim", keys=keys, access=VENDED)):
        await assert_no_access(worker, one)


async def test_recovery_claims_no_directory_of_an_overwritten_metadata_file(lake: Lake) -> None:
    worker, keys = await changed_after_registration(lake)
    await assert_refused(worker, await worker.call("POST", f"{TABLES}/claim/catalog/recovery", {}, keys=keys))
    for one in vended(await worker.call("GET", f"{TABLES}/claim", keys=keys, access=VENDED)):
        await assert_no_access(worker, one)


async def test_diagnosis_lists_no_folder_of_an_overwritten_metadata_file(lake: Lake) -> None:
    assert (await lake.send("PUT", "/lake/other/00001-x.metadata.json", b"{}")).status == 200
    log = [{"timestamp-ms": 1, "metadata-file": f"{OTHER}/missing"}]
    changes = {"location": OTHER, "properties": {"write.metadata.path": OTHER}, "metadata-log": log}
    worker, keys = await changed_after_registration(lake, changes)
    found = await worker.call("GET", f"{TABLES}/claim/catalog/diagnostics", keys=keys)
    assert found.status == 200, found.body
    assert b"00001-x" not in found.body
    assert b"other/missing" not in found.body


async def test_view_is_not_written_in_the_location_of_an_overwritten_metadata_file(lake: Lake) -> None:
    worker, keys = await changed_after_registration(lake, kind="view")
    updates = [{"action": "set-properties", "updates": {"a": "1"}}]
    path = "/lake/namespaces/ns/views/claim"
    await assert_refused(worker, await worker.call("POST", path, {"requirements": [], "updates": updates}, keys=keys))
    assert (await lake.send("GET", "/lake?list-type=2&prefix=other/metadata/")).body.count(b"<Key>") == 0


async def test_overwritten_metadata_file_is_no_base_for_the_next_registration(lake: Lake) -> None:
    """Otherwise files of its location would count as the table's own."""
    listing = f"{OTHER}/list.avro"
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": listing, "schema-id": 0}
    assert (await lake.send("PUT", "/lake/other/list.avro", b"secret")).status == 200
    worker, keys = await changed_after_registration(lake)
    changed = json.loads((await worker.send("GET", CHANGED)).body)
    document = changed | {
        "location": "s3://lake/mine",
        "snapshots": [snapshot | {"summary": {"operation": "append"}}],
        "current-snapshot-id": 1,
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        "last-sequence-number": 1,
    }
    assert (
        await worker.send("PUT", "/mine/00002.metadata.json", json.dumps(document).encode(), keys=keys)
    ).status == 200
    body = {"name": "claim", "metadata-location": "s3://mine/00002.metadata.json", "overwrite": True}
    answer = await worker.call("POST", "/lake/namespaces/ns/register", body, keys=keys)
    assert answer.status == 400, answer.body
    assert "outside the table's directories" in answer.document["error"]["message"]


async def test_table_with_a_metadata_file_outside_its_directory_can_be_committed(lake: Lake) -> None:
    """After its first commit the metadata file is in the table's directory."""
    worker, keys = await changed_after_registration(lake, {})
    for number in range(2):
        updates = [{"action": "set-properties", "updates": {"n": str(number)}}]
        answer = await worker.call("POST", f"{TABLES}/claim", {"requirements": [], "updates": updates}, keys=keys)
        assert answer.status == 200, answer.body
        assert answer.document["metadata-location"].startswith("s3://lake/mine/metadata/")


# -- directories of a table --------------------------------------------------------------------------------------------


async def test_table_can_move_back_to_an_earlier_location(lake: Lake, engine: Keys) -> None:
    assert (await lake.table(keys=engine, location="s3://lake/a")).status == 200
    for location in ("s3://lake/b", "s3://lake/a", "s3://lake/b/inside", "s3://lake/a"):
        updates = [{"action": "set-location", "location": location}]
        moved = await lake.call("POST", f"{TABLES}/t", {"requirements": [], "updates": updates}, keys=engine)
        assert moved.status == 200, moved.body
    updates = [{"action": "set-location", "location": OTHER}]
    answer = await lake.call("POST", f"{TABLES}/t", {"requirements": [], "updates": updates}, keys=engine)
    await assert_refused(lake, answer)


async def test_table_can_claim_a_parent_directory_only_without_foreign_objects(lake: Lake, engine: Keys) -> None:
    assert (await lake.table(keys=engine, location="s3://lake/a/t")).status == 200
    updates = [{"action": "set-location", "location": "s3://lake/a"}]
    change = {"requirements": [], "updates": updates}
    assert (await lake.send("PUT", "/lake/a/z", b"secret")).status == 200
    assert (await lake.call("POST", f"{TABLES}/t", change, keys=engine)).status == 403
    assert (await lake.send("DELETE", "/lake/a/z")).status == 204
    assert (await lake.call("POST", f"{TABLES}/t", change, keys=engine)).status == 200


async def test_existing_claim_on_foreign_objects_stays_valid(lake: Lake, engine: Keys) -> None:
    created = await lake.table(keys=engine, location="s3://lake/mine")
    identity = created.document["metadata"]["table-uuid"].replace("-", "")

    async def work(tx: Any) -> None:
        await tx.run(
            "INSERT INTO entry_locations (bucket, prefix, entry)"
            " SELECT id, 'other/', ? FROM buckets WHERE name = 'lake'",
            identity,
        )

    await lake.store.meta.transact(work)
    loaded = await lake.call("GET", f"{TABLES}/t", keys=engine, access=VENDED)
    assert (await lake.send("GET", SECRET, keys=vended(loaded)[0])).body == b"secret"
    for updates in (
        [{"action": "set-properties", "updates": {"a": "1"}}],
        [{"action": "set-properties", "updates": {"write.data.path": OTHER}}],
    ):
        change = {"requirements": [], "updates": updates}
        assert (await lake.call("POST", f"{TABLES}/t", change, keys=engine)).status == 200


async def test_objects_cannot_be_put_into_a_claimed_directory_without_table_permissions(
    lake: Lake, engine: Keys
) -> None:
    """Neither as objects nor as multipart uploads."""
    assert (await create(lake, engine, "s3://lake/mine")).status == 200
    plain = await lake.user("plain", allow("s3:*"))
    assert (await lake.send("PUT", "/lake/mine/upload", b"secret", keys=plain)).status == 403
    assert (await lake.send("POST", "/lake/mine/upload?uploads", keys=plain)).status == 403
