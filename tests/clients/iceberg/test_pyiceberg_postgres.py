"""PyIceberg on a server whose metadata is in PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.types import StringType

from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server import running_server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[Lake]:
    """A table bucket on a separate server."""
    schema = f"test_{secrets.token_hex(6)}"
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    url = postgres_server.dsn(search_path=schema)
    with running_server(tmp_path_factory.mktemp("postgres") / "data", LAKEBED_META__URL=url) as server:
        yield new_lake(server)
        assert "Traceback" not in server.log_text(), server.log_text()


def test_tables_work_on_postgresql(lake: Lake) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace(("ä b", "c.d"))
        table = catalog.create_table(("ä b", "c.d", "t"), SCHEMA, properties={"commit.retry.num-retries": "20"})
        table.append(people(1, 2, 3))
        table.delete("id = 2")
        table.upsert(people(3, 4, name="changed"), join_cols=["id"])
        with table.update_schema() as update:
            update.add_column("more", StringType())
        table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
        moved = catalog.rename_table(("ä b", "c.d", "t"), ("ä b", "c.d", "Moved"))
        assert ids_of(moved) == [1, 3, 4]
        assert sorted(moved.scan().use_ref("first").to_arrow()["id"].to_pylist()) == [1, 2, 3]
        with catalog.create_table_transaction(("ä b", "c.d", "staged"), SCHEMA) as staged:
            staged.append(people(1))
        assert catalog.list_tables(("ä b", "c.d")) == [("ä b", "c.d", "Moved"), ("ä b", "c.d", "staged")]
        catalog.drop_table(("ä b", "c.d", "staged"))
        catalog.drop_table(("ä b", "c.d", "Moved"))
        catalog.drop_namespace(("ä b", "c.d"))


def test_concurrent_writers_lose_nothing_on_postgresql(lake: Lake) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "t"), SCHEMA, properties={"commit.retry.num-retries": "20"})

    def write(writer: int) -> None:
        with lake.catalog() as own:
            for number in range(3):
                own.load_table(("ns", "t")).append(people(writer * 3 + number))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    with lake.catalog() as catalog:
        assert ids_of(catalog.load_table(("ns", "t"))) == list(range(9))
