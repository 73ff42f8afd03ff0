"""What a scenario works with: a running catalog, where its tables' files are, and the requests that it takes."""

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
"""No table is shown in fewer bytes."""


class Store(Protocol):
    """Where the files of tables are."""

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Write files, by location."""
        ...


@dataclass(frozen=True, slots=True)
class S3Store:
    """Objects, put as any client puts them."""

    endpoint: Endpoint
    tool: LoadTool

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """One PUT a file."""
        requests = [Request("PUT", f"/{place.removeprefix('s3://')}", body=content) for place, content in contents]
        self.tool.deliver(self.endpoint, requests)


@dataclass(frozen=True, slots=True)
class FolderStore:
    """Local files."""

    def put(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """As an engine on the same machine would write them."""
        for place, content in contents:
            path = Path(place.removeprefix("file:").replace("//", "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as its catalog made it."""

    namespace: str
    name: str
    uuid: str
    location: str


@dataclass(frozen=True, slots=True)
class Site:
    """One catalog of a comparison."""

    server: Server
    helpers: tuple[Server, ...]
    """What it cannot work without; their processor time counts as its own."""
    store: Store
    base: str
    """The path that all its paths begin with."""
    tool: LoadTool

    @property
    def name(self) -> str:
        """What the tables of results call it."""
        return self.server.recipe.name

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return self.server.endpoint

    def measure(self, work: Callable[[], Report]) -> Sample:
        """Run `work` and add the processor time that the catalog took for it."""
        return sampled((self.server, *self.helpers), work)

    # -- requests ---------------------------------------------------------------------------------------------

    def load_request(self, table: Table, snapshots: str | None = None) -> Request:
        """Show a table."""
        query = {"snapshots": snapshots} if snapshots else {}
        return Request("GET", self._table_path(table), query, length=(_SHORTEST, 1 << 30))

    def create_request(self, namespace: str, name: str) -> Request:
        """Make a table of ten columns without data."""
        document = {"name": name, "schema": files.table_schema(), "stage-create": False, "properties": {}}
        return self._post(self._tables_path(namespace), document, shortest=_SHORTEST)

    def append_request(self, table: Table, number: int, now_ms: int) -> Request:
        """Commit the append of that number: the files are there, and the one before it was committed."""
        return self._post(self._table_path(table), append_document(table, number, now_ms), shortest=_SHORTEST)

    def late_append_request(self, table: Table, number: int, parent: int) -> Request:
        """An append by somebody for whom the table is still at an earlier one."""
        document = append_document(table, number, time.time_ns() // 1_000_000)
        document["requirements"][1]["snapshot-id"] = files.snapshot_id(parent)
        document["updates"][0]["snapshot"]["parent-snapshot-id"] = files.snapshot_id(parent)
        return self._post(self._table_path(table), document)

    def transaction_request(self, tables: Sequence[Table], number: int, now_ms: int) -> Request:
        """Commit the append of that number to all of these tables."""
        document = {"table-changes": [append_document(table, number, now_ms) for table in tables]}
        return self._post(f"{self.base}/transactions/commit", document, status=204)

    def list_request(self, namespace: str, query: dict[str, str] | None = None) -> Request:
        """The names of a namespace's tables, all of them unless `query` says otherwise."""
        return Request("GET", self._tables_path(namespace), query or {})

    def register_request(self, namespace: str, name: str, metadata_location: str) -> Request:
        """Give a metadata file a name."""
        document = {"name": name, "metadata-location": metadata_location}
        return self._post(f"{self.base}/namespaces/{namespace}/register", document, shortest=_SHORTEST)

    # -- set-up -----------------------------------------------------------------------------------------------

    def create_namespace(self, name: str) -> None:
        """Make an empty namespace."""
        self.endpoint.call(self._post(f"{self.base}/namespaces", {"namespace": [name], "properties": {}}))

    def create_table(self, namespace: str, name: str) -> Table:
        """Make a table, wherever the catalog wants it to be."""
        return self.shown(namespace, name, self.endpoint.call(self.create_request(namespace, name)).body)

    def shown(self, namespace: str, name: str, response: bytes) -> Table:
        """The table that an response shows."""
        metadata = msgspec.json.decode(response)["metadata"]
        return Table(namespace, name, metadata["table-uuid"], metadata["location"].rstrip("/"))

    def metadata(self, table: Table) -> dict[str, Any]:
        """A table's metadata as it is now. Raises RuntimeError if it is another table's."""
        metadata: dict[str, Any] = msgspec.json.decode(self.endpoint.call(self.load_request(table)).body)["metadata"]
        if metadata["table-uuid"] != table.uuid:
            raise RuntimeError(f"another table came back. server={self.name} table={table.name}")
        return metadata

    def check_appended(self, table: Table, number: int) -> None:
        """Raise RuntimeError unless the append of that number is the last that the table has."""
        metadata = self.metadata(table)
        found = (metadata["last-sequence-number"], metadata.get("current-snapshot-id"))
        if found != (number, files.snapshot_id(number)):
            raise RuntimeError(
                f"the table is not at the last append. server={self.name} table={table.name} "
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
    """What a client sends to append a file that it has written."""
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
    """Our catalog; the files are its own objects."""
    with servers.running(recipes.lakebed(), folder) as server:
        server.endpoint.call(Request("PUT", f"/{recipes.WAREHOUSE}"))
        server.endpoint.call(Request("PUT", f"/iceberg/v1/buckets/{recipes.WAREHOUSE}"))
        yield Site(server, (), S3Store(server.endpoint, tool), _base(server.endpoint, "/iceberg"), tool)


@contextmanager
def reference_site(folder: Path, tool: LoadTool) -> Iterator[Site]:
    """The reference server; the files are local ones."""
    with servers.running(recipes.reference(), folder) as server:
        yield Site(server, (), FolderStore(), _base(server.endpoint, ""), tool)


@contextmanager
def nessie_site(folder: Path, tool: LoadTool) -> Iterator[Site]:
    """Nessie; the files are objects in a MinIO of its own."""
    with servers.running(servers.minio(), folder / "store") as store:
        store.endpoint.call(Request("PUT", f"/{recipes.WAREHOUSE}"))
        with servers.running(recipes.nessie(store), folder) as server:
            yield Site(server, (store,), S3Store(store.endpoint, tool), _base(server.endpoint, "/iceberg"), tool)


def _base(endpoint: Endpoint, mount: str) -> str:
    """Where a catalog has its namespaces, as it says when it is asked how it wants to be spoken to."""
    request = Request("GET", f"{mount}/v1/config", {"warehouse": recipes.WAREHOUSE})
    config = msgspec.json.decode(endpoint.call(request).body)
    prefix = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
    return f"{mount}/v1/{unquote(prefix)}" if prefix else f"{mount}/v1"
