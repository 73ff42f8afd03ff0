"""PyIceberg on a catalog federated with a second server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.types import StringType

from tests.clients.boto import root_keys
from tests.clients.iceberg.federated import HOSTS, connect_to_lake
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.iceberg.test_pyiceberg_roles import ManagementApi, bearer, refuses
from tests.fixtures.server import RunningServer, running_server, start_server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose settings allow external catalogs on this machine."""
    folder = tmp_path_factory.mktemp("near") / "data"
    with running_server(folder, workers=2, **{HOSTS: "127.0.0.1"}) as server:
        yield server
        assert "request crashed" not in server.log_text(), server.log_text()[-4000:]


@pytest.fixture(scope="module")
def far(lakebed_server: RunningServer) -> Lake:
    return new_lake(lakebed_server)


@pytest.fixture(scope="module")
def lake(near: RunningServer, far: Lake) -> Lake:
    return connect_to_lake(near, far)


@pytest.fixture(scope="module")
def management(lake: Lake) -> ManagementApi:
    keys = root_keys(lake.server)
    return ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key))


def test_tables_are_created_written_and_read(lake: Lake, far: Lake) -> None:
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with lake.catalog() as catalog, far.catalog() as behind:
        catalog.create_namespace((name, "inner"), {"owner": "me"})
        catalog.update_namespace_properties((name, "inner"), updates={"k": "v"})
        assert behind.load_namespace_properties((name, "inner"))["k"] == "v"
        table = catalog.create_table((name, "inner", "t"), SCHEMA)
        table.append(people(1, 2, 3))
        table.delete("id = 2")
        with table.update_schema() as update:
            update.add_column("more", StringType())
        assert ids_of(catalog.load_table((name, "inner", "t"))) == [1, 3]
        assert ids_of(behind.load_table((name, "inner", "t"))) == [1, 3]
        behind.load_table((name, "inner", "t")).append(people(4))
        assert ids_of(table.refresh()) == [1, 3, 4]
        with catalog.create_table_transaction((name, "inner", "staged"), SCHEMA) as staged:
            staged.append(people(9))
        assert ids_of(catalog.load_table((name, "inner", "staged"))) == [9]
        catalog.rename_table((name, "inner", "t"), (name, "inner", "Ü t"))
        assert catalog.list_tables((name, "inner")) == behind.list_tables((name, "inner"))
        assert ids_of(catalog.load_table((name, "inner", "Ü t"))) == [1, 3, 4]
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table((name, "inner", "Ü t"), SCHEMA)
        catalog.drop_table((name, "inner", "Ü t"))
        catalog.purge_table((name, "inner", "staged"))
        with pytest.raises(NoSuchTableError):
            catalog.load_table((name, "inner", "Ü t"))
        catalog.drop_namespace((name, "inner"))
        assert (name, "inner") not in behind.list_namespaces((name,))


def test_conflicts_are_reported_and_concurrent_writers_lose_nothing(lake: Lake) -> None:
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with lake.catalog() as catalog:
        catalog.create_namespace(name)
        properties = {"commit.retry.num-retries": "0"}
        table = catalog.create_table((name, "t"), SCHEMA, properties=properties)
        first, second = catalog.load_table((name, "t")), catalog.load_table((name, "t"))
        first.append(people(1))
        with pytest.raises(CommitFailedException):
            second.append(people(2))
        assert ids_of(table.refresh()) == [1]

        def append(number: int) -> None:
            while True:
                try:
                    catalog.load_table((name, "t")).append(people(number))
                except CommitFailedException:
                    continue
                return

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(10, 16)))
        assert ids_of(table.refresh()) == [1, *range(10, 16)]


def test_caller_without_permission_is_refused_although_the_connection_has_all(
    lake: Lake, far: Lake, management: ManagementApi
) -> None:
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with far.catalog() as behind:
        behind.create_namespace(name)
        behind.create_table((name, "t"), SCHEMA).append(people(1, 2))
        behind.create_table((name, "other"), SCHEMA).append(people(3))
    writer, reader, unprivileged = (management.member(role) for role in ("writer", "reader", "unprivileged"))
    management.grant(writer, "TABLE_WRITE_DATA", name, table="t")
    management.grant(writer, "TABLE_LIST", name, table="t")
    management.grant(reader, "TABLE_READ_DATA", name, table="t")
    with writer.catalog() as catalog:
        table = catalog.load_table((name, "t"))
        table.append(people(5))
        assert ids_of(table) == [1, 2, 5]
        assert catalog.list_tables(name) == [(name, "t")]
        with pytest.raises(ForbiddenError):
            catalog.load_table((name, "other"))
        with pytest.raises(ForbiddenError):
            catalog.drop_table((name, "t"))
    with reader.catalog() as catalog:
        # The metadata only: the vended credentials permit writes, so readers do not receive them.
        assert len(catalog.load_table((name, "t")).snapshots()) == 2
        with pytest.raises(ForbiddenError):
            catalog.load_table((name, "t")).transaction().set_properties(x="y").commit_transaction()
    with unprivileged.catalog() as catalog:
        refuses(
            lambda: catalog.load_table((name, "t")),
            lambda: catalog.list_tables(name),
            lambda: catalog.list_namespaces(),
            lambda: catalog.create_table((name, "x"), SCHEMA),
        )
    with far.catalog() as behind:
        assert ids_of(behind.load_table((name, "t"))) == [1, 2, 5]


def test_unavailable_external_catalog_is_reported_and_nothing_is_lost(near: RunningServer, tmp_path: Path) -> None:
    folder = tmp_path / "far"
    server = start_server(folder, workers=1)
    try:
        far = new_lake(server)
        lake = connect_to_lake(near, far)
        with lake.catalog() as catalog:
            catalog.create_namespace("ns")
            table = catalog.create_table("ns.t", SCHEMA)
            table.append(people(1))
            server.kill()
            answer = lake.request("GET", f"{lake.warehouse}/namespaces/ns/tables/t")
            assert answer.status == 503
            assert b"does not respond" in answer.body
            server = start_server(folder, workers=1, port=server.port)
            table = catalog.load_table("ns.t")
            table.append(people(2))
            assert ids_of(table) == [1, 2]
    finally:
        if server.process.poll() is None:
            server.kill()
