from __future__ import annotations

import pytest

from lakebed.client import TableRef
from lakebed.client.policies import table_target
from lakebed.core.errors import InvalidName, NoSuchCatalog, NoSuchNamespace, NoSuchTable
from lakebed.core.jobs import JobKind

from .conftest import Lake

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_warehouses_namespaces_and_tables_are_listed(lake: Lake) -> None:
    warehouse = lake.warehouse()
    lake.namespace(warehouse, "ns", "in.ner")
    names = {lake.table(warehouse, name) for name in ("t", "ü- x", "a.b")}
    tables = lake.client.tables
    assert warehouse in list(tables.warehouses())
    assert tables.location(warehouse) == f"s3://{warehouse}/"
    with pytest.raises(NoSuchCatalog):
        tables.location("ghost")
    assert list(tables.namespaces(warehouse)) == [("ns",)]
    assert list(tables.namespaces(warehouse, ["ns"])) == [("ns", "in.ner")]
    assert set(tables.tables(warehouse, ["ns"])) == names
    assert list(tables.tables(warehouse, ["ns", "in.ner"])) == []


def test_table_health_is_read(lake: Lake) -> None:
    table = lake.table()
    health = lake.client.tables.health(table)
    assert health.ref == table
    assert (health.data_files, health.snapshots, health.last_maintained) == (0, 0, {})
    other = lake.table(table.warehouse, "u")
    healths = list(lake.client.tables.healths(table.warehouse))
    assert {one.ref for one in healths} == {table, other}
    assert {one.ref for one in lake.client.tables.healths(table.warehouse, ["ns"])} == {table, other}
    assert {table, other} <= {one.ref for one in lake.client.tables.healths()}


def test_table_without_policies_has_an_empty_plan(lake: Lake) -> None:
    table = lake.table()
    plan = lake.client.tables.plan(table)
    assert (plan.planned, plan.revised, plan.withdrawn, plan.skipped) == ([], [], [], [])
    assert lake.client.tables.submit_plan(table).tasks == []


def test_plan_follows_from_policies_and_table_health(lake: Lake) -> None:
    table, policies = lake.table(), lake.client.policies
    lake.append(table, times=3)
    health = lake.client.tables.health(table)
    assert (health.data_files, health.small_files, health.records, health.measured) == (3, 3, 3, "manifests")
    policies.create(
        table.warehouse, ("ns",), "pack", "system.data-compaction", {"enable": True, "config": {"min-input-files": 2}}
    )
    policies.attach(table.warehouse, ("ns",), "pack", table_target(("ns",), "t"))
    (spec,) = lake.client.tables.plan(table).planned
    assert (spec.job, spec.entry) == (JobKind.COMPACT, health.entry)
    assert spec.policy is not None
    assert (spec.policy.name, spec.policy.attached_to, spec.policy.inherited) == ("pack", "table ns.t", False)
    assert spec.cost is not None
    assert spec.cost.input_files == 3
    enacted = lake.client.tables.submit_plan(table)
    (placed,) = enacted.tasks
    task = lake.client.tasks.get(placed.id)
    assert task.spec == placed.spec == spec
    (skipped,) = lake.client.tables.plan(table).skipped
    assert (skipped.job, skipped.policy) == (JobKind.COMPACT, spec.policy)


def test_missing_entities_raise_errors_by_kind(lake: Lake) -> None:
    warehouse = lake.warehouse()
    tables = lake.client.tables
    with pytest.raises(NoSuchTable):
        tables.health(TableRef(warehouse, ("ns",), "none"))
    with pytest.raises(NoSuchCatalog):
        tables.plan(TableRef("none", ("ns",), "t"))
    with pytest.raises(NoSuchNamespace):
        list(tables.healths(warehouse, ["none"]))
    with pytest.raises(InvalidName):
        tables.health(TableRef.parse(warehouse, "t"))
