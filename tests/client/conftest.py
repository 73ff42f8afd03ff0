from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lakebed.client import LakebedClient, ServerAccess, TableRef
from lakebed.client.connection import ServerConnection
from lakebed.core.secrets import Secret
from tests.clients.boto import Keys
from tests.clients.iceberg.lake import Lake as CatalogLake
from tests.fixtures.server import RunningServer, running_server

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


def access_to(server: RunningServer, keys: Keys | None = None) -> ServerAccess:
    """Access to a server with the given keys, by default root's."""
    if keys is None:
        keys = Keys(server.access_key, server.secret_key)
    return ServerAccess(server.endpoint, keys.access_key, Secret(keys.secret_key))


@dataclass(frozen=True, slots=True)
class Lake:
    """A running server, and a client with root's credentials."""

    server: RunningServer
    client: LakebedClient
    connection: ServerConnection
    """For requests that the client does not support: creating buckets and tables."""

    def warehouse(self) -> str:
        """Create a table bucket with the namespace `ns`."""
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.connection.call("PUT", f"/{name}")
        self.connection.call("PUT", f"/iceberg/v1/buckets/{name}")
        self.namespace(name, "ns")
        return name

    def namespace(self, warehouse: str, *levels: str) -> None:
        self.connection.call("POST", f"/iceberg/v1/{warehouse}/namespaces", document={"namespace": levels})

    def table(self, warehouse: str | None = None, name: str = "t") -> TableRef:
        """Create a table, by default in a new table bucket."""
        warehouse = warehouse or self.warehouse()
        document = {"name": name, "schema": SCHEMA}
        self.connection.call("POST", f"/iceberg/v1/{warehouse}/namespaces/ns/tables", document=document)
        return TableRef(warehouse, ("ns",), name)

    def append(self, table: TableRef, *, times: int) -> None:
        """Append rows one by one, each in its own file."""
        with CatalogLake(self.server, table.warehouse).catalog() as catalog:
            loaded = catalog.load_table((*table.namespace, table.table))
            for number in range(times):
                loaded.append(
                    pa.table({"id": [number]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
                )


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A server for this package only, with its own task queue and events."""
    data = tmp_path_factory.mktemp("client") / "data"
    # The scheduler plans nothing during the tests.
    with running_server(data, "--set", "pipeline.schedule_interval=1h", "--set", "pipeline.debounce=1h") as server:
        connection = ServerConnection(access_to(server))
        with LakebedClient(access=access_to(server)) as client:
            yield Lake(server, client, connection)
        connection.close()
