"""What Spark works on: our catalog and store, and a Hadoop catalog on the bare disk; both in one session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import processes, servers
from benchmarks.endpoint import Request
from benchmarks.servers import Recipe, Server
from lakebed.client import ServerAccess, TableRef
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.spark.config import CATALOG_CLASS
from lakebed.pipeline.spark.session import attach_catalog, start_spark
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAKEBED: Final = "Lakebed"
DISK: Final = "bare disk"
NAMES: Final = (LAKEBED, DISK)

WAREHOUSE: Final = "warehouse"
NAMESPACE: Final = "bench"

DISK_DURABILITY: Final = "nothing: neither data files, nor metadata files, nor folders are synced"


def recipe() -> Recipe:
    """Our server, which leaves tasks to the workers that are started for it."""
    ours = servers.lakebed()
    return replace(
        ours,
        durability=(
            "every file that it names: fdatasync of the file, fsync of its folder, or fdatasync of the metadata log "
            "where that holds it; fdatasync of the log, which holds the pointer and the events"
        ),
        environment=lambda folder, port, who: {
            **ours.environment(folder, port, who),
            "LAKEBED_PIPELINE__EMBEDDED_WORKER": "off",
        },
    )


@contextmanager
def running_server(folder: Path, ours: Recipe | None = None) -> Iterator[Server]:
    """Our server with a table bucket and a namespace in it."""
    with servers.running(ours or recipe(), folder) as server:
        call = server.endpoint.call
        call(Request("PUT", f"/{WAREHOUSE}"))
        call(Request("PUT", f"/iceberg/v1/buckets/{WAREHOUSE}"))
        document = b'{"namespace": ["%s"]}' % NAMESPACE.encode()
        kind = {"content-type": "application/json"}
        call(Request("POST", f"/iceberg/v1/{WAREHOUSE}/namespaces", headers=kind, body=document))
        yield server


def access_to(server: Server) -> ServerAccess:
    """How clients reach the server. The keys sign requests to the catalog; those to files it hands out itself."""
    who = server.credentials
    return ServerAccess(f"http://{server.address}", who.access_key, Secret(who.secret_key))


@dataclass(frozen=True, slots=True)
class Site:
    """One catalog of the session, and where its files are."""

    name: str
    catalog: str
    """What it is called in Spark."""
    spark: SparkSession
    server: Server
    """Ours. It runs while the bare disk is measured too, and has nothing to do."""

    def table(self, name: str) -> CatalogTable:
        """A table as jobs have it. Those that are measured here request the server for nothing beside the catalog."""
        return CatalogTable(TableRef(WAREHOUSE, (NAMESPACE,), name), access_to(self.server), self.catalog)

    def sql(self, statement: str) -> list[Mapping[str, Any]]:  # Any: whatever is in the rows
        """The rows that a statement gives."""
        return [row.asDict() for row in self.spark.sql(statement).collect()]

    def spark_cpu_seconds(self) -> float:
        """Processor time of Spark's Java so far."""
        gateway: Any = self.spark.sparkContext._gateway  # Any: PySpark's own
        return processes.cpu_seconds(gateway.proc.pid)

    def collect_garbage(self) -> None:
        """Have Java throw away what it has no more use for: what one site left, the other must not pay for."""
        java: Any = self.spark._jvm  # Any: objects of Java
        java.System.gc()


@contextmanager
def sites(server: Server, folder: Path) -> Iterator[list[Site]]:
    """Both catalogs in one new session, ours first."""
    settings = PipelineSettings()
    spark = start_spark(settings)
    try:
        attach_catalog(spark, access_to(server), WAREHOUSE, settings, catalog="lakebed")
        folder.mkdir()
        properties = {
            "": CATALOG_CLASS,
            ".type": "hadoop",
            ".warehouse": folder.as_uri(),
            # As with ours: a table is loaded anew for each statement.
            ".cache-enabled": "false",
        }
        for name, value in properties.items():
            spark.conf.set(f"spark.sql.catalog.disk{name}", value)
        spark.sql(f"CREATE NAMESPACE disk.{NAMESPACE}")
        yield [Site(LAKEBED, "lakebed", spark, server), Site(DISK, "disk", spark, server)]
    finally:
        spark.stop()
