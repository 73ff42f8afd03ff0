"""Spark on a table bucket: one catalog of the shared session per access mode."""

from __future__ import annotations

import re
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.clients.boto import REGION, Keys
from tests.clients.iceberg.lake import ALIAS, DELEGATION, OWN, Lake
from tests.fixtures.server import RunningServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK_MARKS: Final = [
    pytest.mark.integration,
    pytest.mark.slow,
    # PySpark leaves its socket for rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@dataclass(frozen=True, slots=True)
class AccessMode:
    """How Spark connects to the catalog and accesses files."""

    name: str
    mount: str = OWN
    service: str = "s3"
    settings: Mapping[str, str] = field(default_factory=dict)
    static_credentials: bool = False
    """Whether Spark has static credentials for files, besides those that sign catalog requests."""


VENDED: Final = AccessMode("vended", settings={DELEGATION: "vended-credentials"})
SIGNED: Final = AccessMode("signed", ALIAS, "s3tables", {DELEGATION: "remote-signing"})
STATIC: Final = AccessMode("static", static_credentials=True)
VENDED_BY_ALIAS: Final = AccessMode("alias", ALIAS, "s3tables", {DELEGATION: "vended-credentials"})


@dataclass(frozen=True, slots=True)
class Engine:
    """A Spark session and its catalog for one table bucket in one access mode."""

    spark: SparkSession
    catalog: str
    lake: Lake

    def sql(self, statement: str) -> list[tuple[Any, ...]]:  # Any: values of rows
        """Run a statement to completion and return its rows."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def value(self, query: str) -> Any:  # Any: a value of a row
        """The single value that a query returns."""
        ((found,),) = self.sql(query)
        return found

    def table(self, namespace: str, name: str = "t") -> str:
        """A table's full name."""
        return f"{self.catalog}.{namespace}.{name}"

    def views(self, namespace: str) -> list[str]:
        """The views of a namespace, without the session's temporary views, which every listing includes."""
        listed = self.sql(f"SHOW VIEWS IN {self.catalog}.{namespace}")
        return [name for _, name, is_temporary in listed if not is_temporary]


def new_engine(
    spark: SparkSession, lake: Lake, mode: AccessMode, keys: Keys, more: Mapping[str, str] | None = None
) -> Engine:
    """Add a catalog to the session, with requests signed by these keys."""
    name = f"{mode.name}_{uuid.uuid4().hex[:8]}"
    settings = {
        "type": "rest",
        "uri": f"{lake.server.endpoint}{mode.mount}",
        "warehouse": lake.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": mode.service,
        "rest.signing-region": REGION,
        "rest.access-key-id": keys.access_key,
        "rest.secret-access-key": keys.secret_key,
        # With the cache, commits of other catalogs are invisible for 30 s.
        "cache-enabled": "false",
        **mode.settings,
        **(more or {}),
    }
    if mode.static_credentials:
        settings |= {
            "s3.endpoint": lake.server.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
        }
    return _added(spark, name, lake, settings)


def with_credential(spark: SparkSession, lake: Lake, keys: Keys, delegation: str, *, mount: str = OWN) -> Engine:
    """Add a catalog with an OAuth2 credential and without access keys to the session."""
    name = f"oauth_{uuid.uuid4().hex[:8]}"
    settings = {
        "type": "rest",
        "uri": f"{lake.server.endpoint}{mount}",
        "warehouse": lake.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "credential": f"{keys.access_key}:{keys.secret_key}",
        "oauth2-server-uri": f"{lake.server.endpoint}{mount}/v1/oauth/tokens",
        "scope": "PRINCIPAL_ROLE:ALL",
        "cache-enabled": "false",
        DELEGATION: delegation,
    }
    return _added(spark, name, lake, settings)


def _added(spark: SparkSession, name: str, lake: Lake, settings: Mapping[str, str]) -> Engine:
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return Engine(spark, name, lake)


def answered(server: RunningServer, operation: str) -> int:
    """The number of successful requests for a catalog operation, over all workers."""
    with urllib.request.urlopen(f"{server.endpoint}/metrics") as answer:
        text = answer.read().decode()
    series = rf'lakebed_catalog_requests_total\{{operation="{operation}",status="2\d\d"\}} (\S+)'
    return sum(int(float(found)) for found in re.findall(series, text))
