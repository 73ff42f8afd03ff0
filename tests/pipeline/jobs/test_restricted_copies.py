from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from lakebed.client import LakebedClient
from lakebed.client.policies import table_target
from lakebed.core.errors import AccessDenied, InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import root_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.users import User
from tests.pipeline.bench import SPARK_MARKS, Bench, access_of, changed_nothing

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

COPIES = "__lakebed_restricted__"
COPY = JobKind.COPY_RESTRICTED


def planned(lake: Lake, namespace: str, user: User) -> Any:  # Any: JSON
    """The scan plan of a user."""
    return lake.call("POST", f"namespaces/{namespace}/tables/t/plan", {}, keys=user.keys)


def restricted(lake: Lake, namespace: str, user: User, kind: str, **says: object) -> None:
    """Attach a policy for a user."""
    content = {"enable": True, "restricts": {"principals": [user.name]}, **says}
    name = kind.rpartition(".")[2]
    with LakebedClient(access=access_of(lake, root_keys(lake.server))) as client:
        client.policies.create(lake.warehouse, (namespace,), name, kind, json.dumps(content))
        client.policies.attach(lake.warehouse, (namespace,), name, table_target((namespace,), "t"))


def copy_of(bench: Bench, lake: Lake, namespace: str, user: User) -> CatalogTable:
    """The restricted copy that a plan waits for."""
    known = {row[1] for row in _copies(bench)}
    assert planned(lake, namespace, user)["status"] == "submitted"
    (name,) = {row[1] for row in _copies(bench)} - known
    return bench.table(COPIES, name)


def _copies(bench: Bench) -> list[tuple[Any, ...]]:  # Any: rows
    if (COPIES,) not in bench.sql(f"SHOW NAMESPACES IN {bench.catalog}"):
        return []
    return bench.sql(f"SHOW TABLES IN {bench.catalog}.{COPIES}")


def test_restricted_copy_has_visible_rows_and_is_filled_once(
    root_bench: Bench, lake: Lake, namespace: str, engineer: User
) -> None:
    table = root_bench.table(namespace)
    root_bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT NOT NULL, s STRING, d DATE, n TIMESTAMP_NTZ, z TIMESTAMP, b BINARY,"
        " i INT, f FLOAT, m DECIMAL(9, 2), l ARRAY<STRING>) USING iceberg PARTITIONED BY (bucket(2, id))"
    )
    root_bench.sql(
        f"INSERT INTO {table.sql} SELECT id, concat('text-', id), date_add(DATE '2020-05-06', CAST(id AS INT)),"
        " TIMESTAMP_NTZ '2020-05-06 07:08:09', TIMESTAMP '2020-05-06 07:08:09Z', X'00FF', 7, 1.5, 2.50, array('a')"
        " FROM range(6)"
    )
    restricted(lake, namespace, engineer, "lakebed.row-filter", filter="id BETWEEN 1 AND 2 AND s LIKE 'text-%'")
    columns: dict[str, object] = {
        "s": {"mask": "partial", "last": 1},
        "d": "year",
        "n": "year",
        "z": "year",
        "b": "hash",
        "i": {"mask": "constant", "value": 1},
        "f": {"mask": "constant", "value": 0.5},
        "m": {"mask": "constant", "value": "9.99"},
        "l": "hash",
    }
    restricted(lake, namespace, engineer, "lakebed.column-mask", columns=columns)
    copy = copy_of(root_bench, lake, namespace, engineer)
    assert not root_bench.do(COPY, copy, dry_run=True).changed
    report = root_bench.do(COPY, copy)
    assert report.changed
    assert report.wrote.rows == 2
    rows = root_bench.sql(
        f"SELECT id, s, d, CAST(n AS STRING), CAST(z AS STRING), length(b), i, f, m, l FROM {copy.sql} ORDER BY id"
    )
    rest = (date(2020, 1, 1), "2020-01-01 00:00:00", "2020-01-01 00:00:00", 32, 1, 0.5, Decimal("9.99"), None)
    assert rows == [(1, "****1", *rest), (2, "****2", *rest)]
    assert changed_nothing(root_bench.do(COPY, copy), "already")
    assert planned(lake, namespace, engineer)["status"] == "completed"


def test_restricted_copy_without_visible_rows_is_created(
    root_bench: Bench, lake: Lake, namespace: str, engineer: User
) -> None:
    table = root_bench.table(namespace)
    root_bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(3)")
    restricted(lake, namespace, engineer, "lakebed.row-filter", filter=False)
    copy = copy_of(root_bench, lake, namespace, engineer)
    assert root_bench.do(COPY, copy).wrote.rows == 0
    assert planned(lake, namespace, engineer)["file-scan-tasks"] == []


def test_only_restricted_copies_are_filled_and_only_by_task_runners(
    root_bench: Bench, bench: Bench, lake: Lake, namespace: str, engineer: User
) -> None:
    table = root_bench.table(namespace)
    root_bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(3)")
    with pytest.raises(InvalidInput, match="not a restricted copy"):
        root_bench.do(COPY, table)
    restricted(lake, namespace, engineer, "lakebed.row-filter", filter=False)
    copy = copy_of(root_bench, lake, namespace, engineer)
    with pytest.raises(AccessDenied):
        bench.do(COPY, bench.table(COPIES, copy.ref.table))
