"""The catalogs under test: how each is started, and what its acknowledgement of a commit means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks import servers
from benchmarks.catalog import jars
from benchmarks.servers import Recipe, Server, free_port
from benchmarks.signing import Credentials

WAREHOUSE: Final = "warehouse"
HEAP: Final = "-Xmx2g"
"""Of each Java process; otherwise Java's defaults."""
NAMES: Final = ("Lakebed", "Iceberg reference", "Nessie")


def lakebed() -> Recipe:
    """Lakebed, from this checkout."""
    return replace(
        servers.lakebed(),
        durability=(
            "fdatasync of the metadata log, which holds the pointer, the commit log, the events and small metadata "
            "files; of larger ones also fdatasync of the file and fsync of its folder; concurrent commits share "
            "a sync of the log"
        ),
    )


def reference() -> Recipe:
    """The reference server with a JDBC catalog: SQLite in a file, metadata in local files.

    SQLite has a write-ahead log that is synced at every commit, as Lakebed's. The driver's default, a rollback journal,
    is as durable and slower.
    """
    return Recipe(
        name=NAMES[1],
        version=jars.ICEBERG,
        durability="fsync of SQLite's log, which holds the pointer; metadata files are not synced",
        command=lambda folder, port: [
            *(str(jars.supported_java()), HEAP, f"-Djava.io.tmpdir={folder}", "-cp", f"{jars.reference_jars()}/*"),
            "org.apache.iceberg.rest.RESTCatalogServer",
        ],
        environment=lambda folder, port, credentials: {
            "CATALOG_REST_PORT": str(port),
            "CATALOG_WAREHOUSE": f"file://{folder / 'warehouse'}",
            "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}?journal_mode=WAL&synchronous=FULL",
        },
        ready_path="/v1/config",
        signs_requests=False,
    )


def nessie(store: Server) -> Recipe:
    """Nessie with RocksDB, its warehouse in `store`."""

    def environment(folder: Path, port: int, credentials: Credentials) -> Mapping[str, str]:
        settings = folder / "application.properties"
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{name}={value}\n" for name, value in _nessie_settings(folder, port, store)))
        return {"QUARKUS_CONFIG_LOCATIONS": str(settings)}

    return Recipe(
        name=NAMES[2],
        version=jars.NESSIE,
        durability=(
            "RocksDB's log is written and not synced; the metadata file is an object in MinIO, synced by its defaults"
        ),
        command=lambda folder, port: [
            *(str(jars.nessie_java()), HEAP, f"-Djava.io.tmpdir={folder}", "-jar", str(jars.nessie_jar())),
        ],
        environment=environment,
        ready_path="/iceberg/v1/config",
        signs_requests=False,
    )


def _nessie_settings(folder: Path, port: int, store: Server) -> list[tuple[str, str]]:
    s3, secrets = "nessie.catalog.service.s3.default-options", "benchmark.store"
    return [
        ("quarkus.http.host", "127.0.0.1"),
        ("quarkus.http.port", str(port)),
        ("quarkus.management.host", "127.0.0.1"),
        ("quarkus.management.port", str(free_port())),
        ("quarkus.http.access-log.enabled", "false"),
        ("quarkus.otel.sdk.disabled", "true"),
        ("nessie.version.store.type", "ROCKSDB"),
        ("nessie.version.store.persist.rocks.database-path", str(folder / "rocksdb")),
        ("nessie.server.authentication.enabled", "false"),
        ("nessie.catalog.default-warehouse", WAREHOUSE),
        (f"nessie.catalog.warehouses.{WAREHOUSE}.location", f"s3://{WAREHOUSE}/"),
        (f"{s3}.endpoint", f"http://{store.address}/"),
        (f"{s3}.path-style-access", "true"),
        (f"{s3}.region", "us-east-1"),
        (f"{s3}.access-key", f"urn:nessie-secret:quarkus:{secrets}"),
        (f"{secrets}.name", store.credentials.access_key),
        (f"{secrets}.secret", store.credentials.secret_key),
    ]
