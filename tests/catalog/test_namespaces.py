from __future__ import annotations

import asyncio

import msgspec
import pytest

from lakebed.catalog.idempotency import Mutation, RequestKey
from lakebed.catalog.identifiers import path_of
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    ConflictingProperties,
    InvalidInput,
    InvalidName,
    NamespaceNotEmpty,
    NoSuchCatalog,
    NoSuchNamespace,
)
from tests.objects.stores import ROOT

from .harness import UNPRIVILEGED, CatalogHarness, user_with

AS_ROOT = Mutation(ROOT)


async def paths(catalog: CatalogHarness, *parent: str) -> list[tuple[str, ...]]:
    page = await catalog.namespaces.list(ROOT, "lake", parent, after="", limit=1000)
    assert not page.truncated
    return [one.levels for one in page.items]


# -- created ---------------------------------------------------------------------------------------------------------


async def test_created_namespace_has_its_properties(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    made = await catalog.namespaces.create(AS_ROOT, "lake", ["sales"], {"owner": "ann"})
    assert (made.levels, made.properties) == (("sales",), {"owner": "ann"})
    assert await catalog.namespaces.get(ROOT, "lake", ["sales"]) == made
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.catalog, event.namespace) == ("NamespaceCreated", "lake", ("sales",))
    assert (event.principal, event.request_id, event.source_ip) == ("root", "R1", "127.0.0.1")


async def test_missing_parents_are_created_with_their_child(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    await catalog.namespaces.create(AS_ROOT, "lake", ["a", "b", "c"], {"deep": "yes"})
    assert await paths(catalog) == [("a",), ("ns",)]
    assert await paths(catalog, "a") == [("a", "b")]
    assert await paths(catalog, "a", "b") == [("a", "b", "c")]
    assert (await catalog.namespaces.get(ROOT, "lake", ["a", "b"])).properties == {}
    assert [(kind, event.namespace) for kind, event in await catalog.events(before)] == [
        ("NamespaceCreated", ("a", "b", "c"))
    ]


async def test_existing_parent_is_unchanged(catalog: CatalogHarness) -> None:
    parent = await catalog.namespaces.create(AS_ROOT, "lake", ["a"], {"owner": "ann"})
    await catalog.namespace("a", "b")
    assert await catalog.namespaces.get(ROOT, "lake", ["a"]) == parent


async def test_implicitly_created_parent_holds_its_name(catalog: CatalogHarness) -> None:
    await catalog.namespace("a", "b")
    for levels in (["ns"], ["a"], ["a", "b"]):
        async with catalog.unchanged():
            with pytest.raises(AlreadyExists, match="Namespace already exists: "):
                await catalog.namespaces.create(AS_ROOT, "lake", levels, {})


async def test_one_of_concurrent_creates_succeeds(catalog: CatalogHarness) -> None:
    before = await catalog.last_event()
    outcomes = await asyncio.gather(
        *(catalog.namespaces.create(AS_ROOT, "lake", ["a", "b"], {"by": str(number)}) for number in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 3
    assert len(await catalog.events(before)) == 1


async def test_rejected_namespace_leaves_nothing(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        for levels in ([], [""], ["a/b"], ["a", ".."]):
            with pytest.raises(InvalidName):
                await catalog.namespaces.create(AS_ROOT, "lake", levels, {})
        with pytest.raises(InvalidInput):
            await catalog.namespaces.create(AS_ROOT, "lake", ["a"], {"k": "v" * 4097})
        with pytest.raises(NoSuchCatalog):
            await catalog.namespaces.create(AS_ROOT, "pond", ["a"], {})


async def test_namespaces_of_two_catalogs_are_separate(catalog: CatalogHarness) -> None:
    await catalog.create_table_bucket("pond")
    await catalog.namespaces.create(AS_ROOT, "pond", ["ns"], {"in": "pond"})
    assert (await catalog.namespaces.get(ROOT, "lake", ["ns"])).properties == {}


# -- listed ----------------------------------------------------------------------------------------------------------


async def test_listing_returns_direct_children_in_pages(catalog: CatalogHarness) -> None:
    for one in ("c", "a", "b", "ab", "a-b"):
        await catalog.namespace("top", one)
        await catalog.namespace("top", one, "below")
    await catalog.namespace("top2", "x")
    listed: list[tuple[str, ...]] = []
    sizes: list[int] = []
    truncated = True
    while truncated:
        page = await catalog.namespaces.list(
            ROOT, "lake", ["top"], after=path_of(listed[-1]) if listed else "", limit=2
        )
        listed += [one.levels for one in page.items]
        sizes.append(len(page.items))
        truncated = page.truncated
    assert listed == [("top", one) for one in ("a", "a-b", "ab", "b", "c")]
    assert sizes == [2, 2, 1]
    assert await paths(catalog) == [("ns",), ("top",), ("top2",)]


async def test_exactly_full_page_is_the_last(catalog: CatalogHarness) -> None:
    await catalog.namespace("other")
    page = await catalog.namespaces.list(ROOT, "lake", [], after="", limit=2)
    assert (len(page.items), page.truncated) == (2, False)


async def test_listing_requires_an_existing_parent(catalog: CatalogHarness) -> None:
    assert await paths(catalog, "ns") == []
    with pytest.raises(NoSuchNamespace, match=r"Namespace does not exist: a\.b"):
        await catalog.namespaces.list(ROOT, "lake", ["a", "b"], after="", limit=1)
    with pytest.raises(NoSuchCatalog):
        await catalog.namespaces.list(ROOT, "pond", [], after="", limit=1)
    with pytest.raises(InvalidName):
        await catalog.namespaces.list(ROOT, "lake", [""], after="", limit=1)


# -- described -------------------------------------------------------------------------------------------------------


async def test_property_update_reports_its_result(catalog: CatalogHarness) -> None:
    await catalog.namespaces.create(AS_ROOT, "lake", ["a"], {"x": "1", "y": "2"})
    before = await catalog.last_event()
    change = await catalog.namespaces.set_properties(
        AS_ROOT, "lake", ["a"], updates={"y": "3", "z": "4"}, removals=["x", "none"]
    )
    assert (change.updated, change.removed, change.missing) == (["y", "z"], ["x"], ["none"])
    assert (await catalog.namespaces.get(ROOT, "lake", ["a"])).properties == {"y": "3", "z": "4"}
    [(kind, event)] = await catalog.events(before)
    assert (kind, event.namespace) == ("NamespaceConfigured", ("a",))


async def test_concurrent_property_updates_lose_nothing(catalog: CatalogHarness) -> None:
    await asyncio.gather(
        *(
            catalog.namespaces.set_properties(AS_ROOT, "lake", ["ns"], updates={str(number): ""}, removals=[])
            for number in range(6)
        )
    )
    assert sorted((await catalog.namespaces.get(ROOT, "lake", ["ns"])).properties) == list("012345")


async def test_invalid_property_updates_change_nothing(catalog: CatalogHarness) -> None:
    full = {f"{number}": "v" for number in range(256)}
    await catalog.namespaces.set_properties(AS_ROOT, "lake", ["ns"], updates=full, removals=[])
    change = catalog.namespaces.set_properties
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="too many"):
            await change(AS_ROOT, "lake", ["ns"], updates={"one more": ""}, removals=[])
        with pytest.raises(ConflictingProperties):
            await change(AS_ROOT, "lake", ["ns"], updates={"1": ""}, removals=["1"])
        with pytest.raises(InvalidInput, match="repeated"):
            await change(AS_ROOT, "lake", ["ns"], updates={}, removals=["1", "1"])
        with pytest.raises(NoSuchNamespace):
            await change(AS_ROOT, "lake", ["none"], updates={}, removals=[])
    await change(AS_ROOT, "lake", ["ns"], updates={"one more": ""}, removals=["1"])


# -- removed ---------------------------------------------------------------------------------------------------------


async def test_dropping_a_namespace_keeps_its_parents(catalog: CatalogHarness) -> None:
    await catalog.namespace("a", "b")
    before = await catalog.last_event()
    await catalog.namespaces.drop(AS_ROOT, "lake", ["a", "b"])
    with pytest.raises(NoSuchNamespace):
        await catalog.namespaces.get(ROOT, "lake", ["a", "b"])
    assert await paths(catalog, "a") == []
    assert [(kind, event.namespace) for kind, event in await catalog.events(before)] == [
        ("NamespaceDropped", ("a", "b"))
    ]
    async with catalog.unchanged():
        with pytest.raises(NoSuchNamespace):
            await catalog.namespaces.drop(AS_ROOT, "lake", ["a", "b"])
    await catalog.namespace("a", "b")


@pytest.mark.parametrize("held", ["table", "view", "namespace", "dropped table"])
async def test_nonempty_namespace_cannot_be_dropped(catalog: CatalogHarness, held: str) -> None:
    if held == "namespace":
        await catalog.namespace("ns", "child")
    elif held == "view":
        await catalog.create_view()
    else:
        await catalog.create()
    if held == "dropped table":
        await catalog.set_undrop_window(60)
        await catalog.drop()
    async with catalog.unchanged():
        with pytest.raises(NamespaceNotEmpty, match="is not empty: it contains"):
            await catalog.namespaces.drop(AS_ROOT, "lake", ["ns"])


async def test_namespace_with_a_common_prefix_is_no_child(catalog: CatalogHarness) -> None:
    await catalog.namespace("ns2", "child")
    await catalog.namespaces.drop(AS_ROOT, "lake", ["ns"])


async def test_concurrent_drop_and_create_leave_no_orphan_table(catalog: CatalogHarness) -> None:
    for number in range(4):
        await catalog.namespace(f"n{number}")
        outcomes = await asyncio.gather(
            catalog.namespaces.drop(AS_ROOT, "lake", [f"n{number}"]),
            catalog.create("t", namespace=f"n{number}"),
            return_exceptions=True,
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert [type(failure) for failure in failures] in ([NamespaceNotEmpty], [NoSuchNamespace])
        there = (f"n{number}",) in await paths(catalog)
        assert there is isinstance(failures[0], NamespaceNotEmpty)
        if there:
            page = await catalog.entries.list(ROOT, "lake", [f"n{number}"], EntryKind.TABLE, after="", limit=1)
            assert page.names == ["t"]


# -- who may, and once -----------------------------------------------------------------------------------------------


async def test_each_operation_requires_its_action(light_catalog: CatalogHarness) -> None:
    namespaces = light_catalog.namespaces
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await namespaces.create(Mutation(UNPRIVILEGED), "lake", ["a"], {})
        with pytest.raises(AccessDenied):
            await namespaces.get(UNPRIVILEGED, "lake", ["ns"])
        with pytest.raises(AccessDenied):
            await namespaces.list(UNPRIVILEGED, "lake", [], after="", limit=1)
        with pytest.raises(AccessDenied):
            await namespaces.set_properties(Mutation(UNPRIVILEGED), "lake", ["ns"], updates={}, removals=[])
        with pytest.raises(AccessDenied):
            await namespaces.drop(Mutation(UNPRIVILEGED), "lake", ["ns"])
    await namespaces.create(Mutation(user_with("s3tables:CreateNamespace")), "lake", ["a"], {})
    await namespaces.get(user_with("s3tables:GetNamespace"), "lake", ["a"])
    await namespaces.list(user_with("s3tables:ListNamespaces"), "lake", [], after="", limit=1)
    await namespaces.set_properties(
        Mutation(user_with("s3tables:UpdateNamespace")), "lake", ["a"], updates={"k": "v"}, removals=[]
    )
    await namespaces.drop(Mutation(user_with("s3tables:DeleteNamespace")), "lake", ["a"])


async def test_denial_does_not_reveal_whether_the_namespace_exists(light_catalog: CatalogHarness) -> None:
    for levels in (["ns"], ["none"]):
        with pytest.raises(AccessDenied):
            await light_catalog.namespaces.get(UNPRIVILEGED, "lake", levels)


async def test_permissions_can_be_limited_to_one_namespace(light_catalog: CatalogHarness) -> None:
    sales = user_with("s3tables:*", condition={"StringLike": {"s3tables:namespace": ["sales", "sales.*"]}})
    await light_catalog.namespaces.create(Mutation(sales), "lake", ["sales"], {})
    await light_catalog.namespaces.create(Mutation(sales), "lake", ["sales", "eu"], {})
    async with light_catalog.unchanged():
        for levels in (["sales2"], ["other", "sales"]):
            with pytest.raises(AccessDenied):
                await light_catalog.namespaces.create(Mutation(sales), "lake", levels, {})


async def test_idempotency_key_stores_the_response_of_each_change(catalog: CatalogHarness) -> None:
    namespaces = catalog.namespaces
    keys = [RequestKey(f"k{number}", "digest") for number in range(3)]
    await namespaces.create(Mutation(ROOT, keys[0]), "lake", ["a"], {"x": "1"})
    await namespaces.set_properties(Mutation(ROOT, keys[1]), "lake", ["a"], updates={"y": "2"}, removals=["x", "z"])
    await namespaces.drop(Mutation(ROOT, keys[2]), "lake", ["a"])
    answers = [await catalog.keys.find(key) for key in keys]
    assert [answer and answer.status for answer in answers] == [200, 200, 204]
    assert [answer and answer.body and msgspec.json.decode(answer.body) for answer in answers] == [
        {"namespace": ["a"], "properties": {"x": "1"}},
        {"updated": ["y"], "removed": ["x"], "missing": ["z"]},
        b"",
    ]
