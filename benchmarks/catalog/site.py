"""A running catalog under test: its server, its file store, and the requests of the scenarios."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec

from benchmarks import servers
from benchmarks.catalog import files, recipes
from benchmarks.endpoint import Endpoint, Request
from benchmarks.loadtool import LoadTool, Report
from benchmarks.samples import Sample, sampled
from benchmarks.servers import Server

_JSON: Final = {"content-type": "application/json"}
_SHORTEST: Final = 300
"""Minimum length of a response with table metadata."""


class Store(Protocol):
    """The store of table files."""

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Write files, given by location and content."""
        ...


@dataclass(frozen=True, slots=True)
class S3Store:
    """Writes table files as S3 objects."""

    endpoint: Endpoint
    tool: LoadTool

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        requests = [
            Request("PUT", f"/{location.removeprefix('s3://')}", body=content) for location, content in contents
        ]
        self.tool.deliver(self.endpoint, requests)


@dataclass(frozen=True, slots=True)
class FolderStore:
    """Writes table files to a local folder, as an engine on the same machine does."""

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        for location, content in contents:
            path = Path(location.removeprefix("file:").replace("//", "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as returned by its catalog."""

    namespace: str
    name: str
    uuid: str
    location: str


@dataclass(frozen=True, slots=True)
class Site:
    """One catalog of a comparison."""

    server: Server
    helpers: tuple[Server, ...]
    """Servers that the catalog depends on; their processor time is included."""
    store: Store
    base: str
    """Prefix of all paths."""
    tool: LoadTool

    @property
    def name(self) -> str:
        return self.server.recipe.name

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint

    def measure(self, work: Callable[[], Report]) -> Sample:
        """Run `work` and add the catalog's processor time."""
        return sampled((self.server, *self.helpers), work)

    # -- requests ---------------------------------------------------------------------------------------------

    def load_request(self, table: Table, snapshots: str | None = None) -> Request:
        query = {"snapshots": snapshots} if snapshots else {}
        return Request("GET", self._table_path(table), query, length=(_SHORTEST, 1 << 30))

    def create_request(self, namespace: str, name: str) -> Request:
        """Create an empty table of ten columns."""
        document = {"name": name, "schema": files.table_schema(), "stage-create": False, "properties": {}}
        return self._post(self._tables_path(namespace), document, shortest=_SHORTEST)

    def append_request(self, table: Table, number: int, now_ms: int) -> Request:
        """Commit the append of that number; its files are written, and the one before it is committed."""
        return self._post(self._table_path(table), append_document(table, number, now_ms), shortest=_SHORTEST)

    def late_append_request(self, table: Table, number: int, parent: int) -> Request:
        """An append based on an outdated snapshot."""
        document = append_document(table, number, time.time_ns() // 1_000_000)
        document["requirements"][1]["snapshot-id"] = files.snapshot_id(parent)
        document["updates"][0]["snapshot"]["parent-snapshot-id"] = files.snapshot_id(parent)
        return self._post(self._table_path(table), document)

    def transaction_request(self, tables: Sequence[Table], number: int, now_ms: int) -> Request:
        """Commit the append of that number to all of these tables."""
        document = {"table-changes": [append_document(table, number, now_ms) for table in tables]}
        return self._post(f"{self.base}/transactions/commit", document, status=204)

    def list_request(self, namespace: str, query: dict[str, str] | None = None) -> Request:
        """List the tables of a namespace, by default all of them."""
        return Request("GET", self._tables_path(namespace), query or {})

    def register_request(self, namespace: str, name: str, metadata_location: str) -> Request:
        document = {"name": name, "metadata-location": metadata_location}
        return self._post(f"{self.base}/namespaces/{namespace}/register", document, shortest=_SHORTEST)

    # -- set-up -----------------------------------------------------------------------------------------------

    def create_namespace(self, name: str) -> None:
        self.endpoint.call(self._post(f"{self.base}/namespaces", {"namespace": [name], "properties": {}}))

    def create_table(self, namespace: str, name: str) -> Table:
        """Create a table at the catalog's default location."""
        return self.parse_table(namespace, name, self.endpoint.call(self.create_request(namespace, name)).body)

    def parse_table(self, namespace: str, name: str, response: bytes) -> Table:
        """Parse a load or create response."""
        metadata = msgspec.json.decode(response)["metadata"]
        return Table(namespace, name, metadata["table-uuid"], metadata["location"].rstrip("/"))

    def metadata(self, table: Table) -> dict[str, Any]:
        """Load the table's metadata. Raises RuntimeError if the UUID differs."""
        metadata: dict[str, Any] = msgspec.json.decode(self.endpoint.call(self.load_request(table)).body)["metadata"]
        if metadata["table-uuid"] != table.uuid:
            raise RuntimeError(f"load returned another table. server={self.name} table={table.name}")
        return metadata

    def check_appended(self, table: Table, number: int) -> None:
        """Raise RuntimeError unless the table's last append has that number."""
        metadata = self.metadata(table)
        found = (metadata["last-sequence-number"], metadata.get("current-snapshot-id"))
        if found != (number, files.snapshot_id(number)):
            raise RuntimeError(
                f"table is not at its last append. server={self.name} table={table.name} "
                f"expected={number} found={found}"
            )

    def _post(self, path: str, document: object, *, status: int = 200, shortest: int = 0) -> Request:
        body = msgspec.json.encode(document)
        return Request("POST", path, headers=_JSON, body=body, status=status, length=(shortest, 1 << 30))

    def _tables_path(self, namespace: str) -> str:
        return f"{self.base}/namespaces/{namespace}/tables"

    def _table_path(self, table: Table) -> str:
        return f"{self._tables_path(table.namespace)}/{table.name}"


def append_document(table: Table, number: int, now_ms: int) -> dict[str, Any]:
    """The commit of an append."""
    parent = files.snapshot_id(number - 1) if number > 1 else None
    return {
        "identifier": {"namespace": [table.namespace], "name": table.name},
        "requirements": [
            {"type": "assert-table-uuid", "uuid": table.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
        ],
        "updates": [
            {"action": "add-snapshot", "snapshot": files.snapshot(table.location, number, now_ms)},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": files.snapshot_id(number),
            },
        ],
    }


@contextmanager
def lakebed_site(folder: Path, tool: LoadTool) -> Iterator[Site]:
    """Run Lakebed; table files are its own objects."""
    with servers.running(recipes.lakebed(), folder) as server:
        server.endpoint.call(Request("PUT", f"/{recipes.WAREHOUSE}"))
        server.endpoint.call(Request("PUT", f"/iceberg/v1/buckets/{recipes.WAREHOUSE}"))
        yield Site(server, (), S3Store(server.endpoint, tool), _base(server.endpoint, "/iceberg"), tool)


@contextmanager
def reference_site(folder: Path, tool: LoadTool) -> Iterator[Site]:
    """Run the reference server; table files are local."""
    with servers.running(recipes.reference(), folder) as server:
        yield Site(server, (), FolderStore(), _base(server.endpoint, ""), tool)


@contextmanager
def nessie_site(folder: Path, tool: LoadTool) -> Iterator[Site]:
    """Run Nessie; table files are objects in a separate MinIO."""
    with servers.running(servers.minio(), folder / "store") as store:
        store.endpoint.call(Request("PUT", f"/{recipes.WAREHOUSE}"))
        with servers.running(recipes.nessie(store), folder) as server:
            yield Site(server, (store,), S3Store(store.endpoint, tool), _base(server.endpoint, "/iceberg"), tool)


def _base(endpoint: Endpoint, mount: str) -> str:
    """Return the path prefix that the catalog's configuration gives."""
    request = Request("GET", f"{mount}/v1/config", {"warehouse": recipes.WAREHOUSE})
    config = msgspec.json.decode(endpoint.call(request).body)
    prefix = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
    return f"{mount}/v1/{unquote(prefix)}" if prefix else f"{mount}/v1"
