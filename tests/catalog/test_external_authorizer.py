"""The catalog with an external authorizer: the requested decisions, and filtered listings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.model import EntryKind
from lakebed.core.access import LongLivedKey
from lakebed.core.errors import AccessDenied, Unavailable
from lakebed.core.settings import DecisionMode
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.decision_point import DecisionPoint, ExternalAuthorizer
from tests.governance.decision_point.fakes import FakeDecisionPoint

from .harness import CatalogHarness, name, user_with, wire_catalog

TABLE = EntryKind.TABLE
ANN = user_with("s3tables:*")
ANN = ANN._replace(principal=replace(ANN.principal, key=LongLivedKey("KEY", 1)), request_id="R1")


def with_authorizer(catalog: CatalogHarness, fake: FakeDecisionPoint, *, batch: bool = True) -> CatalogHarness:
    """The same catalog on a server with an external authorizer."""
    store = catalog.store
    point = DecisionPoint(fake.post, store.clock, cache_seconds=0, post_batch=fake.post if batch else None)
    authorizer = ExternalAuthorizer(PolicyAuthorizer(store.clock), point, DecisionMode.AND)
    return wire_catalog(replace(store, object_context=replace(store.object_context, authorizer=authorizer)))


def showing(shows: Callable[[str], bool]) -> Callable[[Any], object]:
    """Allows everything, and filters listings as configured."""

    def script(request: Any) -> object:
        targets = request["resource"]["targets"]
        if len(targets) == 1 and "arn" in targets[0]:
            return True
        return [index for index, target in enumerate(targets) if shows(target["name"])]

    return script


async def test_decisions_are_requested_by_name(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    fake = FakeDecisionPoint()
    catalog = with_authorizer(light_catalog, fake)
    await catalog.entries.load(ANN, "lake", name("t"), TABLE, Action.GET_METADATA_LOCATION)
    (request,) = fake.inputs
    assert (request["actor"]["principal"], request["action"]) == ("alice", "s3tables:GetTableMetadataLocation")
    (target,) = request["resource"]["targets"]
    assert (target["type"], target["name"]) == ("TABLE_LIKE", "t")
    assert target["parents"] == [{"type": "CATALOG", "name": "lake"}, {"type": "NAMESPACE", "name": "ns"}]
    assert request["context"]["privileges"] == ["TABLE_READ_PROPERTIES"]
    assert request["context"]["request_id"] == "R1"
    assert request["context"]["facts"]["s3tables:tableName"] == "t"


async def test_denial_does_not_reveal_whether_the_table_exists(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("orders")
    catalog = with_authorizer(light_catalog, FakeDecisionPoint(lambda query: False))
    texts = []
    for table in ("orders", "refunds"):
        with pytest.raises(AccessDenied) as refused:
            await catalog.entries.load(ANN, "lake", name(table), TABLE, Action.GET_METADATA_LOCATION)
        texts.append(str(refused.value).replace(table, "TABLE"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_are_filled_with_visible_entries(light_catalog: CatalogHarness, limit: int) -> None:
    for table in ("a", "b", "c", "d", "e", "f"):
        await light_catalog.create(table)
    catalog = with_authorizer(light_catalog, FakeDecisionPoint(showing(lambda table: table in "bef")))
    names: list[str] = []
    after, sizes = "", []
    while True:
        page = await catalog.entries.list(ANN, "lake", ["ns"], TABLE, after=after, limit=limit)
        names += page.names
        sizes.append(len(page.names))
        if not page.truncated:
            break
        after = page.names[-1]
    assert names == ["b", "e", "f"]
    assert all(size == limit for size in sizes[:-1])
    assert sizes[-1] > 0


async def test_listing_costs_one_batched_decision(light_catalog: CatalogHarness) -> None:
    for number in range(50):
        await light_catalog.create(f"t{number}")
    fake = FakeDecisionPoint(showing(lambda table: True))
    catalog = with_authorizer(light_catalog, fake)
    assert len((await catalog.entries.list(ANN, "lake", ["ns"], TABLE, after="", limit=100)).names) == 50
    assert [len(query["resource"]["targets"]) for query in fake.inputs] == [1, 50]


async def test_listing_is_complete_without_batched_decisions(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    fake = FakeDecisionPoint()
    catalog = with_authorizer(light_catalog, fake, batch=False)
    assert (await catalog.entries.list(ANN, "lake", ["ns"], TABLE, after="", limit=9)).names == ["t"]
    assert len(fake.inputs) == 1


async def test_namespace_listing_follows_decisions(light_catalog: CatalogHarness) -> None:
    for child in ("a", "b", "c"):
        await light_catalog.namespace("ns", child)
    catalog = with_authorizer(light_catalog, FakeDecisionPoint(showing(lambda child: child != "b")))
    page = await catalog.namespaces.list(ANN, "lake", ["ns"], after="", limit=2)
    assert ([one.levels[-1] for one in page.items], page.truncated) == (["a", "c"], False)


async def test_missing_decision_denies_reads_and_changes(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("t")
    fake = FakeDecisionPoint()
    catalog = with_authorizer(light_catalog, fake)
    fake.is_down = True
    async with light_catalog.unchanged():
        with pytest.raises(Unavailable):
            await catalog.entries.list(ANN, "lake", ["ns"], TABLE, after="", limit=9)
        with pytest.raises(Unavailable):
            await catalog.namespace("other", caller=ANN)
        with pytest.raises(Unavailable):
            await catalog.create("u", caller=ANN)


async def test_no_decision_is_requested_inside_a_transaction(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision may take as long as the settings allow, and all writers would wait."""
    await light_catalog.create("t")
    store = light_catalog.store
    open_transactions = 0
    transact = store.meta.transact

    class Watching(FakeDecisionPoint):
        async def post(self, body: bytes) -> Any:
            assert not open_transactions
            return await super().post(body)

    async def watched(work: Any) -> Any:
        async def inside(tx: Any) -> Any:
            nonlocal open_transactions
            open_transactions += 1
            try:
                return await work(tx)
            finally:
                open_transactions -= 1

        return await transact(inside)

    monkeypatch.setattr(store.meta, "transact", watched)
    fake = Watching()
    catalog = with_authorizer(light_catalog, fake)
    await catalog.namespace("other", caller=ANN)
    await catalog.create("u", caller=ANN)
    await catalog.drop("u", caller=ANN)
    assert len(fake.inputs) >= 3
