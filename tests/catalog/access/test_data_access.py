"""Access to the files of tables, including published vulnerabilities of other catalogs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lakebed.catalog import rows
from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.access.data_access import DataAccess, TableData
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.locations.directories import locate_entry
from lakebed.catalog.tables.creation import StagedTable
from lakebed.catalog.tables.files import parse_location
from lakebed.core.access import DEFAULT_ACCOUNT
from lakebed.core.errors import AccessDenied, InvalidInput, LocationConflict
from lakebed.iceberg.commits import parse_create_table
from lakebed.meta.seam import Transaction
from lakebed.objects.deleting import ObjectIdentifier
from lakebed.objects.model import Caller
from tests.catalog.harness import SCHEMA, CatalogHarness, name
from tests.objects.stores import ROOT, user


def allow(*actions: str, resource: str = "*") -> bytes:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()


READER = user("reader", allow("s3tables:GetTableData"))
WRITER = user("writer", allow("s3tables:PutTableData"))
S3_ONLY = user("s3-only", allow("s3:*", "s3tables:GetTable", "s3tables:GetTableMetadataLocation"))


async def access_to(catalog: CatalogHarness, table: str = "t", caller: Caller = ROOT) -> TableData:
    found = await catalog.entries.find(catalog.store.meta, "lake", name(table))
    assert found.entry is not None
    access = DataAccess(catalog.store.meta, CatalogAuthorizer(catalog.store.object_context), catalog.claims)
    return await access.of_entry(caller, found.catalog, ("ns",), found.entry)


async def stage(catalog: CatalogHarness, caller: Caller = ROOT, **request: Any) -> StagedTable:
    document = {"name": "staged", "schema": SCHEMA, "stage-create": True, **request}
    create_request = parse_create_table(msgspec.json.encode(document))
    return await catalog.creation.stage(Mutation(caller), "lake", ("ns",), create_request)


async def access_to_staged(catalog: CatalogHarness, staged: StagedTable, caller: Caller = ROOT) -> TableData:
    access = DataAccess(catalog.store.meta, CatalogAuthorizer(catalog.store.object_context), catalog.claims)
    metadata = staged.metadata
    return await access.of_staged(
        caller,
        staged.found.catalog,
        staged.identifier,
        (metadata.uuid or "").replace("-", ""),
        metadata.location,
        metadata.properties,
    )


async def test_table_permissions_decide_and_bucket_permissions_do_not(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    directory = parse_location(made.entry.location).directory
    assert await access_to(catalog) == (made.entry.id, parse_location(made.entry.location), (directory,), True)
    assert (await access_to(catalog, caller=WRITER)).writes
    assert not (await access_to(catalog, caller=READER)).writes
    with pytest.raises(AccessDenied, match="GetTableData"):
        await access_to(catalog, caller=S3_ONLY)


async def test_access_covers_the_directories_that_engines_write_to(catalog: CatalogHarness) -> None:
    properties = {
        "write.data.path": "s3://lake/far/data",
        "write.metadata.path": "s3a://lake/home/t/meta/",
        "write.object-storage.path": "s3://lake/far",
    }
    await catalog.create("t", location="s3://lake/home/t", properties=properties)
    data = await access_to(catalog)
    assert data.directories == ("far/", "home/t/")
    assert data.bucket == "lake"
    assert data.location.directory == "home/t/"


@pytest.mark.parametrize("key", ["home/t/a", "home/t/a/b", "far/x"])
async def test_access_holds_files_in_its_directories(catalog: CatalogHarness, key: str) -> None:
    await catalog.create("t", location="s3://lake/home/t", properties={"write.data.path": "s3://lake/far"})
    assert (await access_to(catalog)).contains(key)


def test_directory_is_not_a_prefix_of_its_siblings() -> None:
    data = TableData("id", parse_location("s3://lake/t"), ("t/", "u/v/"), writes=True)
    assert all(map(data.contains_directory, ["t/", "t/a/", "u/v/"]))
    assert not any(map(data.contains_directory, ["t", "", "t10/", "u/", "t/a", "u/v"]))
    assert not any(map(data.contains, ["t", "t/", "t10/f", "", "u/f", "u/v"]))


# -- published vulnerabilities of others -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        {"location": "s3://elsewhere/t"},
        {"location": "s3://lake"},
        {"location": "s3://lake/.lakebed/t"},
        {"location": "s3://lake/a/../other"},
        {"location": "s3://lake/a/*"},
        {"properties": {"write.data.path": "s3://elsewhere/t"}},
        {"properties": {"write.metadata.path": "s3://lake/.lakebed/t"}},
        {"properties": {"write.object-storage.path": "s3://lake/"}},
        {"properties": {"write.folder-storage.path": "file:///etc"}},
    ],
)
async def test_cve_2026_42809_locations_of_a_staged_table_are_checked_before_credentials_are_vended(
    catalog: CatalogHarness, request_: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await access_to_staged(catalog, await stage(catalog, **request_))


@pytest.mark.parametrize("place", ["s3://lake/taken", "s3://lake/taken/inside", "s3://lake/around"])
@pytest.mark.parametrize("by", ["location", "write.data.path", "write.metadata.path"])
async def test_cve_2026_42809_staged_table_gets_no_credentials_for_another_tables_directory(
    catalog: CatalogHarness, place: str, by: str
) -> None:
    await catalog.create("victim", location="s3://lake/taken/")
    await catalog.create("other", location="s3://lake/around/victim")
    request = {"location": place} if by == "location" else {"properties": {by: place}}
    with pytest.raises(LocationConflict):
        await stage(catalog, **request)
    staged = await stage(catalog)
    elsewhere = staged.metadata.location if by != "location" else place
    properties = {} if by == "location" else {by: place}
    metadata = replace(staged.metadata, location=elsewhere, properties=properties)
    with pytest.raises(LocationConflict):
        await access_to_staged(catalog, staged._replace(metadata=metadata))


async def test_staged_table_has_the_directories_of_the_created_table(catalog: CatalogHarness) -> None:
    staged = await stage(catalog, location="s3://lake/new/t", properties={"write.data.path": "s3://lake/new/data"})
    data = await access_to_staged(catalog, staged)
    assert data.directories == ("new/t/", "new/data/")
    assert data.table == (staged.metadata.uuid or "").replace("-", "")
    creator = user("creator", allow("s3tables:CreateTable"))
    with pytest.raises(AccessDenied):
        await access_to_staged(catalog, await stage(catalog, creator), creator)
    with pytest.raises(LocationConflict):
        await access_to_staged(catalog, staged, WRITER)
    arn = f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/*"
    statements = [("s3tables:CreateTable", "*"), ("s3tables:GetTableData", arn)]
    reader = user("reader", *(allow(action, resource=resource) for action, resource in statements))
    assert not (await access_to_staged(catalog, await stage(catalog, reader), reader)).writes


@pytest.mark.parametrize("path", ["s3://elsewhere/t", "s3://lake/.lakebed/t", "s3://lake/victim/metadata"])
@pytest.mark.parametrize("property_", ["write.metadata.path", "write.data.path"])
async def test_cve_2026_42812_path_property_is_checked_when_it_alone_changes(
    catalog: CatalogHarness, path: str, property_: str
) -> None:
    await catalog.create("victim", location="s3://lake/victim")
    await catalog.create("t", location="s3://lake/t")
    with pytest.raises(InvalidInput):
        await catalog.commit(name("t"), {"action": "set-properties", "updates": {property_: path}})
    assert (await access_to(catalog)).directories == ("t/",)


async def test_credentials_follow_a_path_property(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/t")
    moved = {"write.metadata.path": "s3://lake/t-metadata"}
    await catalog.commit(name("t"), {"action": "set-properties", "updates": moved})
    assert (await access_to(catalog)).directories == ("t-metadata/", "t/")


async def test_directories_are_checked_again_when_credentials_are_vended(catalog: CatalogHarness) -> None:
    """Credentials cover only directories that are allowed now, not those allowed when the table was created."""
    made = await catalog.create("t")

    async def work(tx: Transaction) -> None:
        await tx.run(rows.INSERT_LOCATION, made.entry.catalog, ".lakebed/old/", made.entry.id)

    await catalog.store.meta.transact(work)
    with pytest.raises(InvalidInput, match="reserved"):
        await access_to(catalog)


@pytest.mark.parametrize(("first", "second"), [("s3://lake/a", "s3://lake/a/b"), ("s3://lake/a/b/", "s3://lake/a")])
async def test_overlapping_directories_are_detected_in_any_spelling(
    catalog: CatalogHarness, first: str, second: str
) -> None:
    await catalog.create("t", location=first)
    with pytest.raises(LocationConflict):
        await catalog.create("u", location=second)
    await catalog.create("u", location=first.rstrip("/") + "10")


async def test_directory_around_the_table_location_belongs_to_the_table(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/x/home", properties={"write.data.path": "s3://lake/x"})
    assert (await access_to(catalog)).directories == ("x/",)
    warehouse = await catalog.catalogs.find(catalog.store.meta, "lake")
    placed = await locate_entry(catalog.store.meta, warehouse.bucket, "x/later/file")
    assert placed is not None
    assert placed.entry.name == "t"
    with pytest.raises(LocationConflict):
        await catalog.create("u", location="s3://lake/x/later")


async def test_current_metadata_is_found_by_location_on_every_store(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    key = parse_location(made.entry.metadata_at).key
    with pytest.raises(AccessDenied, match="current metadata"):
        await catalog.store.deleter.delete(ROOT, "lake", ObjectIdentifier(key))
    await catalog.commit(name("t"), {"action": "set-properties", "updates": {"a": "1"}})
    await catalog.store.deleter.delete(ROOT, "lake", ObjectIdentifier(key))
