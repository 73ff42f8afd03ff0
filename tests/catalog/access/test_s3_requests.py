"""S3 requests to table buckets, through the services that handle them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from lakebed.catalog.catalogs.service import UNDROP_WINDOW
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables.files import parse_location
from lakebed.core.access import ANONYMOUS, DEFAULT_ACCOUNT, Principal, Session
from lakebed.core.errors import AccessDenied, LakebedError, NoSuchKey
from lakebed.objects.config.lifecycle import Expiration, LifecycleConfiguration, LifecycleFilter, LifecycleRule
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.context import ObjectContext
from lakebed.objects.copying import CopyChanges, CopySource
from lakebed.objects.deleting import ObjectIdentifier
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Caller
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import NewObject
from tests.catalog.harness import CatalogHarness, a_table, name
from tests.objects.stores import DAY_MS, ROOT, user

pytestmark = pytest.mark.parametrize("open_object_store", ["sqlite-memory"], indirect=True)

Action = Callable[[CatalogHarness, Caller, str], Awaitable[object]]


def allow(*actions: str, resource: str = "*") -> bytes:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()


S3_ONLY = user("s3-only", allow("s3:*"))
READER = user("reader", allow("s3:*", "s3tables:GetTableData"))
WRITER = user("writer", allow("s3:*", "s3tables:PutTableData", "s3tables:GetTableData"))


def delegated(table: str, policy: bytes | None = None) -> Caller:
    """A user without permissions, with vended credentials for a table."""
    vended = Session(None, 0, 2**62, (policy or allow("s3:*"),), delegated_for=table)
    return Caller(Principal("engine", DEFAULT_ACCOUNT, "arn:aws:iam::0:user/engine", session=vended))


async def read(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.reader.get(caller, "lake", key)


async def look(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.reader.head(caller, "lake", key)


async def read_tags(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.tags_and_locks.tags(caller, "lake", key, None)


def another(caller: Caller, key: str) -> str:
    """The other side of a copy: vended credentials are valid for the files of their table only."""
    return "elsewhere" if caller.principal.session is None else f"{key}.copy"


async def copy_from(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    new = NewObject(another(caller, key), DEFAULT_ATTRIBUTES)
    return await catalog.store.copier.copy(caller, CopySource("lake", key), "lake", new, CopyChanges())


async def put(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.put("lake", key, b"new", caller=caller)


async def delete(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.deleter.delete(caller, "lake", ObjectIdentifier(key))


async def delete_many(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    (outcome,) = await catalog.store.deleter.delete_many(caller, "lake", [ObjectIdentifier(key)])
    if isinstance(outcome, LakebedError):
        raise outcome
    return outcome


async def copy_to(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    await catalog.store.put("lake", another(caller, key), b"other")
    new = NewObject(key, DEFAULT_ATTRIBUTES)
    return await catalog.store.copier.copy(caller, CopySource("lake", another(caller, key)), "lake", new, CopyChanges())


async def upload(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    new = NewObject(key, DEFAULT_ATTRIBUTES)
    return await catalog.store.uploads.begin(caller, "lake", new, algorithm=None, checksum_type=None)


async def upload_part(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    upload = await catalog.store.begin("lake", key)
    return await catalog.store.uploads.authorize_part(caller, "lake", key, upload.id, 1)


async def abort(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    upload = await catalog.store.begin("lake", key)
    await catalog.store.uploads.abort(caller, "lake", key, upload.id)
    return upload


async def tag(catalog: CatalogHarness, caller: Caller, key: str) -> object:
    return await catalog.store.tags_and_locks.set_tags(caller, "lake", key, None, TagSet((Tag("a", "1"),)))


READS: tuple[Action, ...] = (read, look, read_tags, copy_from)
CONTENT_CHANGES: tuple[Action, ...] = (put, delete, delete_many, copy_to)
WRITES: tuple[Action, ...] = (*CONTENT_CHANGES, upload, upload_part, abort, tag)


@pytest.fixture
async def file(catalog: CatalogHarness) -> str:
    """A data file of the table `ns.t`."""
    made = await catalog.create("t")
    key = parse_location(made.entry.location).directory + "data/f.parquet"
    await catalog.store.put("lake", key, b"rows")
    return key


async def entry_id(catalog: CatalogHarness, table: str = "t") -> str:
    found = await catalog.entries.find(catalog.store.meta, "lake", name(table))
    assert found.entry is not None
    return found.entry.id


# -- rights to the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [*READS, *WRITES])
async def test_bucket_permissions_are_not_sufficient(catalog: CatalogHarness, file: str, action: Action) -> None:
    with pytest.raises(AccessDenied, match="s3tables:"):
        await action(catalog, S3_ONLY, file)


@pytest.mark.parametrize("action", READS)
async def test_reading_requires_permission_to_read_the_table(
    catalog: CatalogHarness, file: str, action: Action
) -> None:
    await action(catalog, READER, file)
    await action(catalog, ROOT, file)
    await action(catalog, delegated(await entry_id(catalog)), file)


@pytest.mark.parametrize("action", WRITES)
async def test_writing_requires_permission_to_write_the_table(
    catalog: CatalogHarness, file: str, action: Action
) -> None:
    with pytest.raises(AccessDenied, match="PutTableData"):
        await action(catalog, READER, file)
    await action(catalog, WRITER, file)


@pytest.mark.parametrize("action", WRITES)
async def test_root_and_vended_credentials_can_write(catalog: CatalogHarness, file: str, action: Action) -> None:
    await action(catalog, delegated(await entry_id(catalog)), file)
    await catalog.store.put("lake", file, b"rows")
    await action(catalog, ROOT, file)


async def test_permission_is_checked_on_the_table_of_the_file(catalog: CatalogHarness, file: str) -> None:
    table = await entry_id(catalog)
    arn = f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/"
    await read(catalog, user("of-t", allow("s3:*"), allow("s3tables:GetTableData", resource=arn + table)), file)
    with pytest.raises(AccessDenied):
        await read(catalog, user("of-u", allow("s3:*"), allow("s3tables:GetTableData", resource=arn + "u")), file)


async def test_policies_can_name_namespace_and_table(catalog: CatalogHarness, file: str) -> None:
    def named(**equal: str) -> Caller:
        statement = {
            "Effect": "Allow",
            "Action": "s3tables:GetTableData",
            "Resource": "*",
            "Condition": {"StringEquals": {f"s3tables:{key}": value for key, value in equal.items()}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
        return user("engine", allow("s3:*"), document)

    await read(catalog, named(namespace="ns", tableName="t"), file)
    for wrong in ({"namespace": "other"}, {"tableName": "u"}):
        with pytest.raises(AccessDenied):
            await read(catalog, named(**wrong), file)


async def test_vended_credentials_do_not_open_a_later_table_at_the_same_location(
    catalog: CatalogHarness, file: str
) -> None:
    """Vended credentials outlive the table, and its directory may belong to another table by then."""
    first = await entry_id(catalog)
    location = f"s3://lake/{file.partition('/data/')[0]}"
    await catalog.dropping.drop(Mutation(ROOT), "lake", name("t"), EntryKind.TABLE)
    await catalog.create("u", location=location)
    with pytest.raises(AccessDenied):
        await read(catalog, delegated(first), file)
    await read(catalog, delegated(await entry_id(catalog, "u")), file)


@pytest.mark.parametrize("action", [*READS, put])
async def test_public_bucket_policy_does_not_open_tables(catalog: CatalogHarness, file: str, action: Action) -> None:
    everybody = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::lake/*"}],
    }
    document = json.dumps(everybody).encode()
    await catalog.store.buckets.set(ROOT, "lake", "s3:PutBucketPolicy", policy=document)
    await catalog.store.put("lake", "public/file", b"for all")
    await catalog.store.put("lake", "elsewhere", b"for all")
    await action(catalog, Caller(ANONYMOUS), "public/file")
    with pytest.raises(AccessDenied, match="anonymous requests"):
        await action(catalog, Caller(ANONYMOUS), file)


@pytest.mark.parametrize("action", [*READS, *WRITES])
async def test_files_outside_table_directories_follow_the_bucket_policy(
    catalog: CatalogHarness, file: str, action: Action
) -> None:
    beside = file.partition("/data/")[0] + "10/file"
    await catalog.store.put("lake", beside, b"of no table")
    await action(catalog, S3_ONLY, beside)


async def test_missing_files_of_a_table_are_reported_to_its_readers_only(catalog: CatalogHarness, file: str) -> None:
    with pytest.raises(AccessDenied, match="GetTableData"):
        await read(catalog, S3_ONLY, file + ".absent")


async def test_files_of_a_dropped_restorable_table_stay_protected(catalog: CatalogHarness, file: str) -> None:
    await catalog.catalogs.set_properties(ROOT, "lake", updates={UNDROP_WINDOW: "3600"}, removals=[])
    dropped = await catalog.dropping.drop(Mutation(ROOT), "lake", name("t"), EntryKind.TABLE)
    with pytest.raises(AccessDenied, match="GetTableData"):
        await read(catalog, S3_ONLY, file)
    with pytest.raises(AccessDenied, match="current metadata"):
        await delete(catalog, ROOT, parse_location(dropped.metadata_at).key)


@pytest.mark.parametrize("action", CONTENT_CHANGES)
async def test_vended_credentials_cannot_change_files_of_a_restorable_table(
    catalog: CatalogHarness, file: str, action: Action
) -> None:
    await catalog.catalogs.set_properties(ROOT, "lake", updates={UNDROP_WINDOW: "3600"}, removals=[])
    dropped = await catalog.dropping.drop(Mutation(ROOT), "lake", name("t"), EntryKind.TABLE, purge=True)
    keys = delegated(dropped.id)
    await read(catalog, keys, file)
    with pytest.raises(AccessDenied, match="can be restored"):
        await action(catalog, keys, file)
    assert await catalog.store.get("lake", file) == b"rows"


# -- current metadata and reserved directories ----------------------------------------------------------------------


@pytest.mark.parametrize("action", CONTENT_CHANGES)
async def test_current_metadata_cannot_be_overwritten_or_deleted(catalog: CatalogHarness, action: Action) -> None:
    made = await catalog.create("t")
    key = parse_location(made.entry.metadata_at).key
    before = await catalog.store.get("lake", key)
    for caller in (ROOT, WRITER, delegated(made.entry.id)):
        with pytest.raises(AccessDenied, match="current metadata"):
            await action(catalog, caller, key)
    assert await catalog.store.get("lake", key) == before


async def test_current_metadata_is_not_replaced_by_a_multipart_upload(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    key = parse_location(made.entry.metadata_at).key
    upload = await catalog.store.begin("lake", key)
    part = await catalog.store.put_part(upload, 1, b"other")
    with pytest.raises(AccessDenied, match="current metadata"):
        await catalog.store.complete("lake", upload, [(1, part.etag)])
    assert b'"format-version"' in await catalog.store.get("lake", key)


async def test_denied_write_leaves_nothing_behind(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    before = await catalog.store.stored_blobs()
    with pytest.raises(AccessDenied):
        await catalog.store.put("lake", parse_location(made.entry.metadata_at).key, b"x" * 100)
    assert await catalog.store.stored_blobs() == before


async def test_old_metadata_can_be_deleted(catalog: CatalogHarness) -> None:
    """Engines delete unreferenced metadata files, for example after failed commits."""
    made = await catalog.create("t")
    await catalog.commit(name("t"), {"action": "set-properties", "updates": {"a": "1"}})
    await delete(catalog, WRITER, parse_location(made.entry.metadata_at).key)


async def test_metadata_outside_the_table_directories_is_protected(catalog: CatalogHarness) -> None:
    made = await catalog.create("t")
    document = await catalog.store.get("lake", parse_location(made.entry.metadata_at).key)
    await catalog.dropping.drop(Mutation(ROOT), "lake", name("t"), EntryKind.TABLE)
    await catalog.store.put("lake", "imports/v1.metadata.json", document)
    await catalog.registration.register_table(Mutation(ROOT), "lake", name("t"), "s3a://lake/imports/v1.metadata.json")
    with pytest.raises(AccessDenied, match="current metadata"):
        await delete(catalog, ROOT, "imports/v1.metadata.json")


@pytest.mark.parametrize("action", [put, copy_to, upload, delete, delete_many])
async def test_reserved_directory_is_read_only(catalog: CatalogHarness, action: Action) -> None:
    for caller in (ROOT, WRITER):
        with pytest.raises(AccessDenied, match="reserved for the catalog"):
            await action(catalog, caller, ".lakebed/state")
    await action(catalog, WRITER, ".lakebed-not/state")


async def test_reserved_directory_is_in_the_catalogs_base_location(catalog: CatalogHarness) -> None:
    store = catalog.store
    await catalog.make("deep", "s3://sea/x/y", "s3://sea/more")
    for key in ("x/y/.lakebed/state", ".lakebed/state"):
        with pytest.raises(AccessDenied, match="reserved for the catalog"):
            await store.put("sea", key, b"", caller=WRITER)
    for key in (
        "x/.lakebed/state",
        "x/y/z/.lakebed/state",
        "more/.lakebed/state",
        "x/y.lakebed/state",
        "x/yy/.lakebed/s",
    ):
        await store.put("sea", key, b"", caller=WRITER)
    for key in ("x/y/.lakebed/quarantine/j/k", ".lakebed/quarantine/j/k"):
        with pytest.raises(AccessDenied, match="quarantine"):
            await store.reader.get(ROOT, "sea", key)
    with pytest.raises(NoSuchKey):
        await store.reader.get(ROOT, "sea", "x/y/.lakebed/other")


async def test_permission_is_checked_on_the_catalog_of_the_file(catalog: CatalogHarness) -> None:
    store = catalog.store
    files: dict[str, str] = {}
    for warehouse in ("one", "two"):
        await catalog.make(warehouse, f"s3://sea/{warehouse}")
        await catalog.namespaces.create(Mutation(ROOT), warehouse, ("ns",), {})
        made = await catalog.creation.create(Mutation(ROOT), warehouse, ("ns",), a_table("t"))
        files[warehouse] = parse_location(made.entry.location).directory + "data/f.parquet"
        await store.put("sea", files[warehouse], b"rows")
    one = (await catalog.catalogs.find(store.meta, "one")).arn
    reader = user("reader", allow("s3:*"), allow("s3tables:GetTableData", resource=f"{one}/*"))
    await store.reader.get(reader, "sea", files["one"])
    with pytest.raises(AccessDenied):
        await store.reader.get(reader, "sea", files["two"])


async def test_other_buckets_have_none_of_these_rules(catalog: CatalogHarness) -> None:
    await catalog.store.bucket("plain")
    await catalog.store.put("plain", ".lakebed/state", b"", caller=S3_ONLY)
    await catalog.store.deleter.delete(S3_ONLY, "plain", ObjectIdentifier(".lakebed/state"))


# -- around it -------------------------------------------------------------------------------------------------------


async def test_enabling_a_bucket_is_idempotent_and_keeps_its_settings(catalog: CatalogHarness) -> None:
    tags = TagSet((Tag("a", "1"),))
    await catalog.store.bucket("second")
    await catalog.store.buckets.set(ROOT, "second", "s3:PutBucketTagging", tags=tags)
    assert not (await catalog.store.buckets.find("second")).holds_tables
    for _ in range(2):
        assert (await catalog.catalogs.enable(ROOT, "second")).bucket.holds_tables
    await catalog.store.buckets.set(ROOT, "second", "s3:PutBucketTagging", tags=TagSet(()))
    found = await catalog.store.buckets.find("second")
    assert found.holds_tables
    assert not found.settings.tags.tags


async def test_lifecycle_expiration_is_rejected_in_a_table_bucket(catalog: CatalogHarness, file: str) -> None:
    rules = LifecycleConfiguration((LifecycleRule("old", True, LifecycleFilter(""), Expiration(days=1)),))
    await catalog.store.bucket("plain")
    await catalog.store.put("plain", "file")
    for bucket in ("lake", "plain"):
        await catalog.store.buckets.set(ROOT, bucket, "s3:PutLifecycleConfiguration", lifecycle=rules)
    catalog.store.clock.advance(3 * DAY_MS / 1000)
    report = await catalog.store.lifecycle.run()
    assert report.expired == 1
    assert await catalog.store.get("lake", file) == b"rows"


async def test_server_without_a_catalog_denies_access_to_table_buckets(catalog: CatalogHarness, file: str) -> None:
    f = catalog.store.object_context
    plain = ObjectContext(
        f.meta, f.outbox, f.storage, f.ingester, f.contents, f.authorizer, f.clock, f.garbage_collector
    )
    with pytest.raises(AccessDenied, match="does not serve them"):
        await ObjectReader(plain).get(ROOT, "lake", file)
    await ObjectReader(replace(plain, table_buckets=f.table_buckets)).get(ROOT, "lake", file)
