"""Applicable policies of many tables, read together, equal those read for each table."""

from __future__ import annotations

from lakebed.catalog.identifiers import Levels
from lakebed.catalog.policies.applicable import applicable_to, read_attached
from lakebed.catalog.policies.attachments import TargetName
from tests.catalog.harness import CatalogHarness, name

from .policy_catalog import CATALOG, COMPACTION, EXPIRY, NS, wire_policies


async def test_batch_and_single_reads_agree(catalog: CatalogHarness) -> None:
    policing = wire_policies(catalog)
    meta = catalog.store.meta
    await catalog.namespace("ns", "deep")
    await catalog.namespace("plain")
    await catalog.create_table_bucket("pond")
    await policing.define(inheritable=False)
    for policy, kind in (("p", COMPACTION), ("q", COMPACTION), ("e", EXPIRY), ("n", "user.note")):
        await policing.create(policy, kind)
    for target in ("a", "b", "c"):
        await catalog.create(target)
    await catalog.create("d", namespace="plain")
    await policing.attach("e", CATALOG)
    await policing.attach("p", NS)
    await policing.attach("q", TargetName.of(["ns"], "b"), {"mode": "quick"})
    await policing.attach("n", TargetName.of(["ns"], "c"))
    lake = (await catalog.catalogs.find(meta, "lake")).id
    pond = (await catalog.catalogs.find(meta, "pond")).id
    entries = [await catalog.entry(name(target)) for target in ("a", "b", "c")]
    entries.append(await catalog.entry(name("d", "plain")))
    ids = sorted(entry.id for entry in entries)
    attached = await (await read_attached(meta, lake)).with_entries(meta, ids[0], ids[-1])
    for entry in entries:
        levels: Levels = ("plain",) if entry.name == "d" else ("ns",)
        alone = await applicable_to(meta, lake, levels, entry)
        assert attached.applicable_to(levels, entry) == alone
        assert [one.policy.name for one in alone] == {
            "a": ["p", "e"],
            "b": ["q", "e"],
            "c": ["n", "p", "e"],
            "d": ["e"],
        }[entry.name]
    for levels in ((), ("ns",), ("ns", "deep"), ("plain",)):
        assert attached.applicable_to(levels) == await applicable_to(meta, lake, levels)
    assert await applicable_to(meta, pond) == []
    assert (await read_attached(meta, pond)).applicable_to(("ns",)) == []
