"""Tables are unregistered, with their last state in the response."""

from __future__ import annotations

import json

import pytest

from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import Entry
from lakebed.core.errors import NoSuchTable, PointerMoved
from tests.objects.stores import ROOT

from .harness import CatalogHarness, FaultyStore, name, set_properties, wire_catalog


def show(entry: Entry, document: bytes) -> bytes:
    return f"{entry.generation} {json.loads(document)['properties'].get('a')}".encode()


async def test_response_is_stored_under_the_idempotency_key(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    key = RequestKey("k", "r")
    assert await light_catalog.dropping.unregister(Mutation(ROOT, key), "lake", name(), show) == b"1 None"
    assert await light_catalog.keys.find(key) == StoredResponse(200, body=b"1 None")


async def test_concurrent_commit_is_in_the_response(light_catalog: CatalogHarness) -> None:
    store = FaultyStore(light_catalog.store.meta)
    catalog = wire_catalog(light_catalog.store, store)
    await catalog.create()
    store.meanwhile = lambda: light_catalog.commit(name(), set_properties(a="1"))
    assert await catalog.dropping.unregister(Mutation(ROOT), "lake", name(), show) == b"2 1"
    with pytest.raises(NoSuchTable):
        await catalog.dropping.unregister(Mutation(ROOT), "lake", name(), show)


async def test_table_with_constant_commits_keeps_its_name(light_catalog: CatalogHarness) -> None:
    store = FaultyStore(light_catalog.store.meta)
    catalog = wire_catalog(light_catalog.store, store)
    await catalog.create()
    commits = 0

    async def commit() -> None:
        nonlocal commits
        commits += 1
        await light_catalog.commit(name(), set_properties(a=str(commits)))
        store.meanwhile = commit

    store.meanwhile = commit
    with pytest.raises(PointerMoved):
        await catalog.dropping.unregister(Mutation(ROOT), "lake", name(), show)
    assert (await light_catalog.entry(name())).generation == commits + 1
