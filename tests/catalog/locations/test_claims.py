"""Concurrent and slow claims of directories. Attacks are tested in `wire/iceberg`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.locations.claims import RESERVED_MS, ChosenBy, EntryLocations, LocationClaims
from lakebed.catalog.model import CatalogKind, EntryKind
from lakebed.core.access import Session
from lakebed.core.errors import AccessDenied, InvalidInput, LakebedError, LocationConflict, WriteConflict
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.model import DEFAULT_ATTRIBUTES, Caller
from lakebed.objects.writing import NewObject
from tests.catalog.harness import CatalogHarness, a_table, name
from tests.objects.stores import ROOT, user


def allow(*actions: str) -> bytes:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()


ENGINE = user("engine", allow("s3tables:*"))
PLAIN = user("plain", allow("s3:*"))


async def a_place(catalog: CatalogHarness, location: str = "s3://lake/mine") -> EntryLocations:
    found = await catalog.entries.find(catalog.store.meta, "lake", name("t"))
    return EntryLocations(found.catalog, found.namespace, EntryKind.TABLE, uuid4().hex, location)


class Slow:
    """A body during whose upload a function runs."""

    def __init__(self, body: bytes, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.length: int | None = len(body)
        self._chunks = [body]
        self._meanwhile = meanwhile

    async def next_chunk(self) -> bytes | None:
        if not self._chunks:
            return None
        await self._meanwhile()
        return self._chunks.pop()


async def put_slowly(
    catalog: CatalogHarness, key: str, meanwhile: Callable[[], Awaitable[object]], caller: Caller = PLAIN
) -> object:
    new = NewObject(key, DEFAULT_ATTRIBUTES)
    return await catalog.store.writer.put(caller, "lake", new, Slow(b"secret", meanwhile), ExpectedDigests())


async def test_object_of_an_upload_begun_before_the_claim_is_rejected(catalog: CatalogHarness) -> None:
    async def claim() -> None:
        await catalog.create("t", location="s3://lake/mine", caller=ENGINE)

    with pytest.raises(WriteConflict, match="upload it again"):
        await put_slowly(catalog, "mine/upload", claim)
    with pytest.raises(AccessDenied):
        await catalog.store.put("lake", "mine/upload", b"secret", caller=PLAIN)


async def test_object_of_an_upload_begun_before_the_reservation_is_rejected(catalog: CatalogHarness) -> None:
    async def stage() -> None:
        await catalog.creation.stage(Mutation(ENGINE), "lake", ("ns",), a_table("t", location="s3://lake/mine"))

    with pytest.raises(WriteConflict):
        await put_slowly(catalog, "mine/upload", stage)


async def test_upload_continues_during_commits_to_its_table(catalog: CatalogHarness) -> None:
    await catalog.create("t", location="s3://lake/mine")

    async def commit() -> None:
        await catalog.commit(name("t"), {"action": "set-properties", "updates": {"a": "1"}})

    await put_slowly(catalog, "mine/data/f", commit, caller=ROOT)


async def test_object_written_after_the_first_check_fails_the_second(catalog: CatalogHarness) -> None:
    claim = await catalog.claims.prepare(ENGINE, await a_place(catalog))
    await catalog.store.put("lake", "mine/upload", b"secret", caller=PLAIN)
    with pytest.raises(AccessDenied, match="while it was claimed"):
        await catalog.store.meta.transact(lambda tx: catalog.claims.take(tx, claim))
    assert not await catalog.claimed()


async def test_concurrent_claim_and_write_do_not_both_succeed(catalog: CatalogHarness) -> None:
    for number in range(10):
        location, key = f"s3://lake/mine{number}", f"mine{number}/upload"
        outcomes = await asyncio.gather(
            catalog.create(f"t{number}", location=location, caller=ENGINE),
            catalog.store.put("lake", key, b"secret", caller=PLAIN),
            return_exceptions=True,
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert len(refused) == 1
        assert isinstance(refused[0], LakebedError)


async def test_one_of_two_concurrent_claims_is_rejected(catalog: CatalogHarness) -> None:
    outcomes = await asyncio.gather(
        *(catalog.create(f"t{number}", location="s3://lake/mine", caller=ENGINE) for number in range(3)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, BaseException) for outcome in outcomes) == 2


async def test_claim_of_a_reserved_directory_is_rejected(catalog: CatalogHarness) -> None:
    claim = await catalog.claims.prepare(ENGINE, await a_place(catalog))
    await catalog.claims.reserve(user("other", allow("s3tables:*")), name("u"), await a_place(catalog))
    with pytest.raises(LocationConflict):
        await catalog.store.meta.transact(lambda tx: catalog.claims.take(tx, claim))


async def test_reservation_is_extended_by_each_request(catalog: CatalogHarness) -> None:
    place, clock = await a_place(catalog), catalog.store.clock
    await catalog.claims.reserve(ENGINE, name("t"), place)
    for _ in range(3):
        await catalog.store.put("lake", "mine/data/f", b"rows", caller=user("engine", allow("s3:*")))
        clock.advance(RESERVED_MS / 1000 * 0.6)
        await catalog.claims.reserve(ENGINE, name("t"), place)
    assert await catalog.claims.delete_expired() == 0
    clock.advance(RESERVED_MS / 1000)
    assert await catalog.claims.delete_expired() == 1
    with pytest.raises(AccessDenied):
        await catalog.claims.reserve(ENGINE, name("t"), place)


async def test_overlapping_reservations_of_one_principal_are_merged(catalog: CatalogHarness) -> None:
    for location in ("s3://lake/a/b", "s3://lake/a", "s3://lake/a/c"):
        await catalog.claims.reserve(ENGINE, name("t"), await a_place(catalog, location))
        await catalog.store.put("lake", "a/b/f", b"rows", caller=user("engine", allow("s3:*")))
    found = await catalog.store.meta.rows("SELECT prefix FROM promised_locations")
    assert [row[0] for row in found] == ["a/"]
    claim = await catalog.claims.prepare(ENGINE, await a_place(catalog, "s3://lake/a/b"))
    await catalog.store.meta.transact(lambda tx: catalog.claims.take(tx, claim))


@pytest.mark.parametrize("kind", [EntryKind.TABLE, EntryKind.VIEW])
async def test_dropped_table_retains_its_directory_until_its_files_are_deleted(
    catalog: CatalogHarness, kind: EntryKind
) -> None:
    location = "s3://lake/home/x"
    await (
        catalog.create("x", location=location)
        if kind is EntryKind.TABLE
        else catalog.create_view("x", location=location)
    )
    await catalog.drop("x", kind=kind)
    assert await catalog.claimed() == {}
    for claimed in (location, "s3://lake/home", "s3://lake/home/x/inside"):
        with pytest.raises(AccessDenied, match="s3:"):
            await catalog.create("t", location=claimed, caller=ENGINE)
    await catalog.create("t", location="s3://lake/home/x/inside")
    await catalog.drop("t", purge=True)


async def test_credentials_are_not_honoured_at_a_former_location(catalog: CatalogHarness) -> None:
    """A purged table frees its directory while its credentials may still be valid."""
    made = await catalog.create("t", location="s3://lake/mine", caller=ENGINE)
    vended = Session(None, 0, 2**62, (allow("s3:*"),), delegated_for=made.entry.id)
    engine = Caller(replace(ENGINE.principal, session=vended))
    await catalog.store.put("lake", "mine/data/f", b"rows", caller=engine)
    await catalog.drop("t", purge=True)
    await catalog.purges.run_due()
    await catalog.store.put("lake", "mine/upload", b"secret", caller=PLAIN)
    with pytest.raises(AccessDenied, match="does not belong to"):
        await catalog.store.reader.get(engine, "lake", "mine/upload")


async def test_claim_of_a_nonempty_reservation_requires_permissions_again(catalog: CatalogHarness) -> None:
    await catalog.store.put("lake", "mine/f", b"secret")
    owner = user("engine", allow("s3tables:*", "s3:*"))
    for location in ("s3://lake/mine", "s3://lake/mine/inside"):
        await catalog.claims.reserve(owner, name("t"), await a_place(catalog, location))
    with pytest.raises(AccessDenied):
        await catalog.claims.prepare(ENGINE, await a_place(catalog, "s3://lake/mine"))


async def test_rejected_claim_changes_nothing(catalog: CatalogHarness) -> None:
    await catalog.store.put("lake", "other/f", b"secret")
    await catalog.create("t", caller=ENGINE)
    async with catalog.unchanged():
        with pytest.raises(AccessDenied):
            await catalog.create("u", location="s3://lake/other", caller=ENGINE)
        with pytest.raises(AccessDenied):
            await catalog.commit(name("t"), {"action": "set-location", "location": "s3://lake/other"}, caller=ENGINE)


# -- catalogs that follow another, and locations that clients may not choose -------------------------------------------


async def test_claims_in_an_external_catalog_require_read_permission(catalog: CatalogHarness) -> None:
    """Credentials for its tables are read-only. Callers with permission to send notifications are trusted."""
    mirror = await catalog.make("mirror", "s3://sea/mirror", kind=CatalogKind.EXTERNAL)
    await catalog.store.put("sea", "mirror/t/f", b"rows")
    place = EntryLocations(mirror, None, EntryKind.TABLE, uuid4().hex, "s3://sea/mirror/t")
    reader = user("reader", allow("s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:GetBucketLocation"))
    for chosen_by in (ChosenBy.CLIENT, ChosenBy.OTHER_CATALOG):
        with pytest.raises(AccessDenied, match="s3:"):
            await catalog.claims.prepare(ENGINE, place, chosen_by)
        await catalog.claims.prepare(reader, place, chosen_by)
    await catalog.claims.prepare(ENGINE, place, ChosenBy.CATALOG)


async def test_external_catalog_chooses_locations_where_clients_cannot(catalog: CatalogHarness) -> None:
    claims, place = LocationClaims(catalog.store.object_context, client_locations=False), await a_place(catalog)
    for chosen_by in (ChosenBy.OTHER_CATALOG, ChosenBy.CATALOG):
        await claims.prepare(ENGINE, place, chosen_by)
    with pytest.raises(InvalidInput, match="clients cannot choose"):
        await claims.prepare(ENGINE, place)
