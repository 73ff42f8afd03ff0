"""Tables that lose their name and are shown for the last time."""

from __future__ import annotations

import json

import pytest

from lakebed.catalog.idempotency import Mutation, RequestKey, StoredResponse
from lakebed.catalog.model import Entry
from lakebed.core.errors import NoSuchTable, PointerMoved
from tests.objects.stores import ROOT

from .harness import CatalogHarness, Eventful, name, set_properties, wire_catalog


def show(entry: Entry, document: bytes) -> bytes:
    return f"{entry.generation} {json.loads(document)['properties'].get('a')}".encode()


async def test_what_is_shown_is_kept_under_the_key(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    key = RequestKey("k", "r")
    assert await light_catalog.dropping.unregister(Mutation(ROOT, key), "lake", name(), show) == b"1 None"
    assert await light_catalog.keys.find(key) == StoredResponse(200, body=b"1 None")


async def test_commit_that_comes_between_is_shown_too(light_catalog: CatalogHarness) -> None:
    store = Eventful(light_catalog.store.meta)
    catalog = wire_catalog(light_catalog.store, store)
    await catalog.create()
    store.meanwhile = lambda: light_catalog.commit(name(), set_properties(a="1"))
    assert await catalog.dropping.unregister(Mutation(ROOT), "lake", name(), show) == b"2 1"
    with pytest.raises(NoSuchTable):
        await catalog.dropping.unregister(Mutation(ROOT), "lake", name(), show)


async def test_table_that_never_stands_still_keeps_its_name(light_catalog: CatalogHarness) -> None:
    store = Eventful(light_catalog.store.meta)
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
