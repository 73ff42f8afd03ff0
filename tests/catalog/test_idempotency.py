from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog.idempotency import LIFETIME_MS, Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AlreadyExists, CommitConflict, DuplicateRequest, InvalidInput, NoSuchTable, NotFound
from lakebed.meta.seam import Transaction
from tests.objects.stores import ROOT

from .harness import CatalogHarness, FaultyStore, a_change, name, set_property, wire_catalog

KEY = RequestKey("01890a5d-ac96-774b-bcce-b302099a8057", "digest of the request")
OTHER = RequestKey(KEY.id, "digest of another request")


async def keep(catalog: CatalogHarness, key: RequestKey | None, answer: StoredResponse) -> None:
    async def work(tx: Transaction) -> None:
        await catalog.keys.keep(tx, key, answer)

    await catalog.store.meta.transact(work)


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [StoredResponse(204), StoredResponse(200, "entry"), StoredResponse(409, body=b'{"error":{}}')]
)
async def test_stored_response_is_found_by_key_and_request(catalog: CatalogHarness, answer: StoredResponse) -> None:
    assert await catalog.keys.find(KEY) is None
    await keep(catalog, KEY, answer)
    assert await catalog.keys.find(KEY) == answer


async def test_key_of_another_request_is_rejected(catalog: CatalogHarness) -> None:
    await keep(catalog, KEY, StoredResponse(204))
    with pytest.raises(InvalidInput, match="send a new key") as refused:
        await catalog.keys.find(OTHER)
    assert refused.value.argument == "Idempotency-Key"


async def test_key_stores_one_response(catalog: CatalogHarness) -> None:
    await keep(catalog, KEY, StoredResponse(200, "first"))
    async with catalog.unchanged():
        for key in (KEY, OTHER):
            with pytest.raises(DuplicateRequest):
                await keep(catalog, key, StoredResponse(200, "second"))
    assert await catalog.keys.find(KEY) == StoredResponse(200, "first")


async def test_nothing_is_stored_without_a_key(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        await keep(catalog, None, StoredResponse(204))


async def test_response_is_stored_for_a_day(catalog: CatalogHarness) -> None:
    await keep(catalog, KEY, StoredResponse(200, "first"))
    catalog.store.clock.advance(LIFETIME_MS / 1000)
    assert await catalog.keys.delete_expired() == 0
    assert await catalog.keys.find(KEY) == StoredResponse(200, "first")
    catalog.store.clock.advance(0.001)
    assert await catalog.keys.find(KEY) is None
    assert await catalog.keys.find(OTHER) is None


async def test_expired_key_is_reusable_before_its_deletion(catalog: CatalogHarness) -> None:
    await keep(catalog, KEY, StoredResponse(200, "first"))
    catalog.store.clock.advance(LIFETIME_MS / 1000 + 0.001)
    await keep(catalog, OTHER, StoredResponse(200, "second"))
    assert await catalog.keys.find(OTHER) == StoredResponse(200, "second")
    assert await catalog.keys.delete_expired() == 0


async def test_expired_responses_are_deleted(catalog: CatalogHarness) -> None:
    for number in range(3):
        await keep(catalog, RequestKey(f"k{number}", ""), StoredResponse(204))
        catalog.store.clock.advance(1)
    catalog.store.clock.advance(LIFETIME_MS / 1000 - 1)
    assert await catalog.keys.delete_expired() == 2
    assert await catalog.keys.find(RequestKey("k2", "")) == StoredResponse(204)


async def test_error_is_stored_unless_a_response_is(catalog: CatalogHarness) -> None:
    await catalog.keys.store_error(KEY, StoredResponse(409, body=b"no"))
    assert await catalog.keys.find(KEY) == StoredResponse(409, body=b"no")
    async with catalog.unchanged():
        await catalog.keys.store_error(KEY, StoredResponse(404, body=b"other"))


async def test_error_replaces_an_expired_response(catalog: CatalogHarness) -> None:
    await keep(catalog, KEY, StoredResponse(200, "first"))
    catalog.store.clock.advance(LIFETIME_MS / 1000 + 0.001)
    await catalog.keys.store_error(OTHER, StoredResponse(409, body=b"no"))
    assert await catalog.keys.find(OTHER) == StoredResponse(409, body=b"no")


# -- changes under a key ---------------------------------------------------------------------------------------------


async def test_response_commits_with_the_change(catalog: CatalogHarness) -> None:
    made = await catalog.create(key=KEY)
    assert await catalog.keys.find(KEY) == StoredResponse(200, made.entry.id)


async def test_failed_change_stores_no_response(catalog: CatalogHarness) -> None:
    await catalog.create()
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists):
            await catalog.create(key=KEY)
        with pytest.raises(CommitConflict):
            await catalog.commit(name(), set_property("a", "1"), requirements=[_other_schema()], key=KEY)
    assert await catalog.keys.find(KEY) is None


def _other_schema() -> dict[str, object]:
    return {"type": "assert-current-schema-id", "current-schema-id": 7}


async def _drop(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.dropping.drop(mutation, "lake", name(), EntryKind.TABLE)


async def _rename(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.renaming.rename(mutation, "lake", name(), name("u"), EntryKind.TABLE)


async def _commit(catalog: CatalogHarness, mutation: Mutation) -> None:
    # Not repeatable: a second attempt finds another schema.
    schema = {
        "type": "struct",
        "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
    }
    change = a_change(
        name(),
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}],
    )
    await catalog.commits.commit(mutation, "lake", change)


async def _commit_all(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.commits.commit_all(mutation, "lake", [a_change(name(), set_property("a", "1"))])


async def _no_change(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.commits.commit(mutation, "lake", a_change(name()))


async def _create(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.create("new", key=mutation.key)


async def _namespace(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.namespaces.create(mutation, "lake", ["new"], {})


async def _drop_namespace(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.namespaces.drop(mutation, "lake", ["empty"])


async def _configure(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.namespaces.set_properties(mutation, "lake", ["ns"], updates={"a": "1"}, removals=[])


async def _protect(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.dropping.protect(mutation, "lake", name(), EntryKind.TABLE, protected=True)


async def _restore(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.dropping.restore(mutation, "lake", name("dropped"))


async def _purge_dropped(catalog: CatalogHarness, mutation: Mutation) -> None:
    await catalog.dropping.purge_now(mutation, "lake", name("dropped"), files=True)


CHANGES: dict[str, Callable[[CatalogHarness, Mutation], Awaitable[None]]] = {
    "create table": _create,
    "commit": _commit,
    "commit of several tables": _commit_all,
    "commit that changes nothing": _no_change,
    "drop": _drop,
    "rename": _rename,
    "protect": _protect,
    "restore": _restore,
    "give up": _purge_dropped,
    "create namespace": _namespace,
    "configure namespace": _configure,
    "drop namespace": _drop_namespace,
}


async def _with_entries(catalog: CatalogHarness) -> None:
    await catalog.namespace("empty")
    await catalog.set_undrop_window(60)
    await catalog.create()
    await catalog.create("dropped")
    await catalog.drop("dropped")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_one_of_concurrent_requests_with_a_key_changes_something(
    catalog: CatalogHarness, change: Callable[[CatalogHarness, Mutation], Awaitable[None]]
) -> None:
    await _with_entries(catalog)
    before = await catalog.last_event()
    outcomes = await asyncio.gather(*(change(catalog, Mutation(ROOT, KEY)) for _ in range(4)), return_exceptions=True)
    assert outcomes.count(None) == 1
    kinds = [kind for kind, _ in await catalog.events(before)]
    assert len(kinds) == (0 if change is _no_change else 1)
    assert await catalog.keys.find(KEY) is not None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_second_request_gets_the_stored_response_not_a_conflict(
    catalog: CatalogHarness, change: Callable[[CatalogHarness, Mutation], Awaitable[None]]
) -> None:
    await _with_entries(catalog)
    eventful = FaultyStore(catalog.store.meta)
    second = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: change(catalog, Mutation(ROOT, KEY))
    with pytest.raises(DuplicateRequest):
        await change(second, Mutation(ROOT, KEY))
    answered = await catalog.everything()
    with pytest.raises((DuplicateRequest, AlreadyExists, CommitConflict, NotFound)):
        await change(second, Mutation(ROOT, KEY))
    assert await catalog.everything() == answered


async def test_rolled_back_repeat_leaves_no_file(catalog: CatalogHarness) -> None:
    await catalog.create(key=KEY)
    async with catalog.unchanged():
        with pytest.raises(DuplicateRequest):
            await catalog.create("other", key=KEY)
        with pytest.raises(DuplicateRequest):
            await catalog.commit(name(), set_property("a", "1"), key=KEY)


async def test_repeat_without_a_key_fails_on_its_own_effect(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.drop(key=KEY)
    async with catalog.unchanged():
        with pytest.raises(NoSuchTable):
            await catalog.drop(key=KEY)
    assert await catalog.keys.find(KEY) == StoredResponse(204)
