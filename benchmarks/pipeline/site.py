"""The two Iceberg catalogs of a Spark session: Lakebed, and a Hadoop catalog on the bare disk."""

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
    """Lakebed without its embedded worker."""
    ours = servers.lakebed()
    return replace(
        ours,
        durability=(
            "every file of the commit: fdatasync of the file, fsync of its folder, or fdatasync of the metadata log "
            "where that holds it; fdatasync of the log, which holds the pointer and the events"
        ),
        environment=lambda folder, port, credentials: {
            **ours.environment(folder, port, credentials),
            "LAKEBED_PIPELINE__EMBEDDED_WORKER": "off",
        },
    )


@contextmanager
def running_server(folder: Path, ours: Recipe | None = None) -> Iterator[Server]:
    """Run Lakebed with a table bucket and a namespace."""
    with servers.running(ours or recipe(), folder) as server:
        call = server.endpoint.call
        call(Request("PUT", f"/{WAREHOUSE}"))
        call(Request("PUT", f"/iceberg/v1/buckets/{WAREHOUSE}"))
        document = b'{"namespace": ["%s"]}' % NAMESPACE.encode()
        kind = {"content-type": "application/json"}
        call(Request("POST", f"/iceberg/v1/{WAREHOUSE}/namespaces", headers=kind, body=document))
        yield server


def access_to(server: Server) -> ServerAccess:
    """Client access to the server. The keys sign catalog requests; the catalog vends credentials for files."""
    credentials = server.credentials
    return ServerAccess(f"http://{server.address}", credentials.access_key, Secret(credentials.secret_key))


@dataclass(frozen=True, slots=True)
class Site:
    """One catalog of the session."""

    name: str
    catalog: str
    """Its name in Spark."""
    spark: SparkSession
    server: Server
    """Lakebed; it is idle while the bare disk is measured."""

    def table(self, name: str) -> CatalogTable:
        """Reference a table for a job; the measured jobs send no other requests to the server."""
        return CatalogTable(TableRef(WAREHOUSE, (NAMESPACE,), name), access_to(self.server), self.catalog)

    def sql(self, statement: str) -> list[Mapping[str, Any]]:  # Any: values of any column type
        """Run a statement and return its rows."""
        return [row.asDict() for row in self.spark.sql(statement).collect()]

    def spark_cpu_seconds(self) -> float:
        """Processor time of Spark's JVM so far."""
        gateway: Any = self.spark.sparkContext._gateway  # Any: PySpark's own
        return processes.cpu_seconds(gateway.proc.pid)

    def collect_garbage(self) -> None:
        """Run the JVM's garbage collector, so that one site does not pay for the other."""
        java: Any = self.spark._jvm  # Any: objects of Java
        java.System.gc()


@contextmanager
def sites(server: Server, folder: Path) -> Iterator[list[Site]]:
    """Start a session with both catalogs, Lakebed first."""
    settings = PipelineSettings()
    spark = start_spark(settings)
    try:
        attach_catalog(spark, access_to(server), WAREHOUSE, settings, catalog="lakebed")
        folder.mkdir()
        properties = {
            "": CATALOG_CLASS,
            ".type": "hadoop",
            ".warehouse": folder.as_uri(),
            # As with Lakebed: each statement reloads the table.
            ".cache-enabled": "false",
        }
        for name, value in properties.items():
            spark.conf.set(f"spark.sql.catalog.disk{name}", value)
        spark.sql(f"CREATE NAMESPACE disk.{NAMESPACE}")
        yield [Site(LAKEBED, "lakebed", spark, server), Site(DISK, "disk", spark, server)]
    finally:
        spark.stop()
