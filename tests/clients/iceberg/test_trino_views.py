"""Trino's views in the catalog."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoQueryError, TrinoUserError

from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS


@pytest.fixture
def source(trino: TrinoCatalog, namespace: str) -> str:
    """A table of ten rows."""
    t = trino.table(namespace, "source")
    trino.sql(f"CREATE TABLE {t} AS SELECT id, id % 2 AS odd FROM UNNEST(sequence(0, 9)) AS s (id)")
    return t


def test_view_is_created_replaced_described_and_dropped(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str, source: str
) -> None:
    v = trino.table(namespace, "v")
    trino.sql(f"CREATE VIEW {v} COMMENT 'counts' AS SELECT count(*) AS n FROM {source}")
    assert trino.sql(f"SELECT n FROM {v}") == [(10,)]
    trino.sql(f"INSERT INTO {source} VALUES (10, 0)")
    assert trino.sql(f"SELECT n FROM {v}") == [(11,)]
    shown = trino.value(f"SHOW CREATE VIEW {v}")
    assert "COMMENT 'counts'" in shown
    trino.sql(f"CREATE OR REPLACE VIEW {v} AS SELECT id FROM {source} WHERE odd = 1 AND id < 4")
    assert trino.column(f"SELECT id FROM {v} ORDER BY id") == [1, 3]
    view = catalog.load_view((namespace, "v"))
    assert len(view.metadata.versions) == 2
    assert {one.representations[0].root.dialect for one in view.metadata.versions} == {"trino"}
    trino.sql(f"COMMENT ON VIEW {v} IS 'odd ones'")
    assert catalog.load_view((namespace, "v")).metadata.properties["comment"] == "odd ones"
    trino.sql(f"DROP VIEW {v}")
    assert not catalog.view_exists((namespace, "v"))
    with pytest.raises(TrinoUserError, match="does not exist"):
        trino.sql(f"SELECT * FROM {v}")
    trino.sql(f"DROP VIEW IF EXISTS {v}")


def test_view_of_views_is_readable(
    trino: TrinoCatalog, trino_static: TrinoCatalog, namespace: str, source: str
) -> None:
    inner, outer = trino.table(namespace, "inner_view"), trino.table(namespace, "outer_view")
    trino.sql(f"CREATE VIEW {inner} AS SELECT id FROM {source} WHERE id > 6")
    trino.sql(f"CREATE VIEW {outer} AS WITH x AS (SELECT * FROM {inner}) SELECT max(id) AS most FROM x")
    assert trino.column(f"SELECT id FROM {inner} ORDER BY id") == [7, 8, 9]
    assert trino_static.sql(f"SELECT most FROM {trino_static.table(namespace, 'outer_view')}") == [(9,)]


def test_view_is_renamed_and_shares_one_set_of_names_with_tables(
    trino: TrinoCatalog, namespace: str, source: str
) -> None:
    v, to = trino.table(namespace, "v"), trino.table(namespace, "w")
    trino.sql(f"CREATE VIEW {v} AS SELECT 1 AS one")
    trino.sql(f"ALTER VIEW {v} RENAME TO {to}")
    assert trino.sql(f"SHOW TABLES FROM {trino.schema(namespace)}") == [("source",), ("w",)]
    kinds = (
        f"SELECT table_name, table_type FROM {trino.name}.information_schema.tables WHERE table_schema = '{namespace}'"
    )
    assert sorted(trino.sql(kinds)) == [("source", "BASE TABLE"), ("w", "VIEW")]
    assert trino.sql(f"SELECT * FROM {to}") == [(1,)]
    for statement in (
        f"CREATE VIEW {to} AS SELECT 2 AS two",
        f"CREATE VIEW {source} AS SELECT 2 AS two",
        f"CREATE TABLE {to} (id BIGINT)",
    ):
        with pytest.raises(TrinoQueryError, match="already exists"):
            trino.sql(statement)
    with pytest.raises(TrinoUserError, match="does not exist"):
        trino.sql(f"SELECT * FROM {v}")
