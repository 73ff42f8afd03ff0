"""Spark on a table bucket: the ways in, each a catalog of the one session."""

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
    # PySpark leaves the socket that it read rows from to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@dataclass(frozen=True, slots=True)
class Way:
    """How Spark speaks to the catalog, and gets at the files behind it."""

    name: str
    mount: str = OWN
    service: str = "s3"
    settings: Mapping[str, str] = field(default_factory=dict)
    holds_keys: bool = False
    """Whether Spark is given keys to the files, besides those that sign what it asks of the catalog."""


VENDED: Final = Way("vended", settings={DELEGATION: "vended-credentials"})
SIGNED: Final = Way("signed", ALIAS, "s3tables", {DELEGATION: "remote-signing"})
HELD: Final = Way("held", holds_keys=True)
VENDED_BY_ALIAS: Final = Way("alias", ALIAS, "s3tables", {DELEGATION: "vended-credentials"})


@dataclass(frozen=True, slots=True)
class Engine:
    """The session, and the catalog in it that is one way into one table bucket."""

    spark: SparkSession
    catalog: str
    lake: Lake

    def sql(self, statement: str) -> list[tuple[Any, ...]]:  # Any: whatever is in the rows
        """Run a statement to its end; its rows."""
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def value(self, query: str) -> Any:  # Any: whatever it is
        """The one value that a query finds."""
        ((found,),) = self.sql(query)
        return found

    def table(self, namespace: str, name: str = "t") -> str:
        """A table's full name."""
        return f"{self.catalog}.{namespace}.{name}"

    def views(self, namespace: str) -> list[str]:
        """The views of a namespace. Those that the session has for itself are listed everywhere, and left out."""
        listed = self.sql(f"SHOW VIEWS IN {self.catalog}.{namespace}")
        return [name for _, name, is_temporary in listed if not is_temporary]


def new_engine(spark: SparkSession, lake: Lake, way: Way, keys: Keys, more: Mapping[str, str] | None = None) -> Engine:
    """Add a catalog to the session, signed for with these keys."""
    name = f"{way.name}_{uuid.uuid4().hex[:8]}"
    settings = {
        "type": "rest",
        "uri": f"{lake.server.endpoint}{way.mount}",
        "warehouse": lake.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": way.service,
        "rest.signing-region": REGION,
        "rest.access-key-id": keys.access_key,
        "rest.secret-access-key": keys.secret_key,
        # Left on, a catalog does not see for half a minute what was committed by another.
        "cache-enabled": "false",
        **way.settings,
        **(more or {}),
    }
    if way.holds_keys:
        settings |= {
            "s3.endpoint": lake.server.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
        }
    return _added(spark, name, lake, settings)


def with_credential(spark: SparkSession, lake: Lake, keys: Keys, way: str, *, mount: str = OWN) -> Engine:
    """Add a catalog to the session that knows a client id and its secret, and no keys."""
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
        DELEGATION: way,
    }
    return _added(spark, name, lake, settings)


def _added(spark: SparkSession, name: str, lake: Lake, settings: Mapping[str, str]) -> Engine:
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return Engine(spark, name, lake)


def answered(server: RunningServer, operation: str) -> int:
    """How many requests for an operation of the catalog a server has granted so far, all its workers together."""
    with urllib.request.urlopen(f"{server.endpoint}/metrics") as answer:
        text = answer.read().decode()
    series = rf'lakebed_catalog_requests_total\{{operation="{operation}",status="2\d\d"\}} (\S+)'
    return sum(int(float(found)) for found in re.findall(series, text))
