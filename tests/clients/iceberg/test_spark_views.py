"""Spark's views in the catalog."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from tests.clients.iceberg.engine import SPARK_MARKS, Engine

pytestmark = SPARK_MARKS


@pytest.fixture
def source(vended: Engine, namespace: str) -> str:
    """A table of ten rows."""
    t = vended.table(namespace, "source")
    vended.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id, id % 2 AS odd FROM range(10)")
    return t


def refused(engine: Engine, statement: str, condition: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        engine.sql(statement)
    assert caught.value.getCondition() == condition


def test_view_is_created_replaced_described_and_dropped(vended: Engine, namespace: str, source: str) -> None:
    v = vended.table(namespace, "v")
    vended.sql(f"CREATE VIEW {v} (n COMMENT 'how many') COMMENT 'counts' AS SELECT count(*) FROM {source}")
    assert vended.sql(f"SELECT n FROM {v}") == [(10,)]
    vended.sql(f"INSERT INTO {source} VALUES (10, 0)")
    assert vended.sql(f"SELECT n FROM {v}") == [(11,)]
    vended.sql(f"CREATE OR REPLACE VIEW {v} AS SELECT id FROM {source} WHERE odd = 1 AND id < 4")
    assert vended.sql(f"SELECT * FROM {v} ORDER BY id") == [(1,), (3,)]
    vended.sql(f"ALTER VIEW {v} SET TBLPROPERTIES ('keeper' = 'me')")
    assert ("keeper", "me") in vended.sql(f"SHOW TBLPROPERTIES {v}")
    vended.sql(f"ALTER VIEW {v} UNSET TBLPROPERTIES ('keeper')")
    assert "me" not in str(vended.sql(f"SHOW TBLPROPERTIES {v}"))
    assert f"FROM {source}" in vended.value(f"SHOW CREATE TABLE {v}")
    vended.sql(f"DROP VIEW {v}")
    refused(vended, f"SELECT * FROM {v}", "TABLE_OR_VIEW_NOT_FOUND")
    refused(vended, f"DROP VIEW {v}", "VIEW_NOT_FOUND")
    vended.sql(f"DROP VIEW IF EXISTS {v}")


def test_view_of_views_is_independent_of_the_current_namespace(vended: Engine, namespace: str, source: str) -> None:
    inner, outer = vended.table(namespace, "inner_view"), vended.table(namespace, "outer_view")
    current = vended.sql("SELECT current_catalog(), current_database()")[0]
    vended.sql(f"USE {vended.catalog}.{namespace}")
    try:
        vended.sql("CREATE VIEW inner_view AS SELECT id FROM source WHERE id > 6")
        vended.sql("CREATE VIEW outer_view AS WITH x AS (SELECT * FROM inner_view) SELECT max(id) AS most FROM x")
    finally:
        vended.sql(f"USE {current[0]}.{current[1]}")
    assert vended.sql(f"SELECT * FROM {inner} ORDER BY id") == [(7,), (8,), (9,)]
    assert vended.sql(f"SELECT most FROM {outer}") == [(9,)]


def test_view_is_renamed_and_shares_one_set_of_names_with_tables(vended: Engine, namespace: str, source: str) -> None:
    v, to = vended.table(namespace, "v"), vended.table(namespace, "w")
    vended.sql(f"CREATE VIEW {v} AS SELECT 1 AS one")
    vended.sql(f"ALTER VIEW {v} RENAME TO {to}")
    assert vended.views(namespace) == ["w"]
    assert vended.sql(f"SHOW TABLES IN {vended.catalog}.{namespace}") == [(namespace, "source", False)]
    assert vended.sql(f"SELECT * FROM {to}") == [(1,)]
    vended.sql(f"CREATE VIEW IF NOT EXISTS {to} AS SELECT 2 AS two")
    refused(vended, f"CREATE VIEW {to} AS SELECT 2 AS two", "VIEW_ALREADY_EXISTS")
    refused(vended, f"CREATE VIEW {source} AS SELECT 2 AS two", "VIEW_ALREADY_EXISTS")
    refused(vended, f"CREATE TABLE {to} (id BIGINT) USING iceberg", "TABLE_OR_VIEW_ALREADY_EXISTS")
    refused(vended, f"SELECT * FROM {v}", "TABLE_OR_VIEW_NOT_FOUND")


def test_views_are_read_and_replaced_in_other_access_modes(
    vended: Engine, signed: Engine, namespace: str, source: str
) -> None:
    name = f"{namespace}.v"
    vended.sql(f"CREATE VIEW {vended.catalog}.{name} AS SELECT count(*) AS n FROM {source}")
    assert signed.views(namespace) == ["v"]
    assert signed.sql(f"SELECT n FROM {signed.catalog}.{name}") == [(10,)]
    signed.sql(
        f"CREATE OR REPLACE VIEW {signed.catalog}.{name} AS SELECT max(id) AS most"
        f" FROM {signed.table(namespace, 'source')}"
    )
    assert signed.sql(f"SELECT most FROM {signed.catalog}.{name}") == [(9,)]
    assert vended.sql(f"SELECT most FROM {vended.catalog}.{name}") == [(9,)]
    signed.sql(f"DROP VIEW {signed.catalog}.{name}")
    refused(vended, f"SELECT * FROM {vended.catalog}.{name}", "TABLE_OR_VIEW_NOT_FOUND")
