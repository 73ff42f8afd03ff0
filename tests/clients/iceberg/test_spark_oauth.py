"""Spark with an OAuth2 credential and nothing else: allowed and refused as its user is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.boto import REGION, Keys, root_keys
from tests.clients.iceberg.engine import SPARK_MARKS, Engine, answered
from tests.clients.iceberg.lake import DELEGATION, OWN, POLARIS, Lake
from tests.clients.people import User

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

WAYS: Final = ("vended-credentials", "remote-signing")


@pytest.fixture(autouse=True)
def own_signatures(spark: SparkSession) -> Iterator[None]:
    """All catalogs of a Java process ask for signatures as the first of them did, and others come by other means."""
    _forget_who_asked(spark)
    yield
    _forget_who_asked(spark)


def _forget_who_asked(spark: SparkSession) -> None:
    java = spark._jvm
    assert java is not None
    client = (
        java.java.lang.Thread.currentThread()
        .getContextClassLoader()
        .loadClass("org.apache.iceberg.aws.s3.signer.S3V4RestSignerClient")
    )
    manager = client.getDeclaredField("authManager")
    manager.setAccessible(True)
    manager.set(None, None)


def with_credential(spark: SparkSession, lake: Lake, keys: Keys, way: str, *, mount: str = OWN) -> Engine:
    """A catalog of the session that knows a client id and its secret, and no keys."""
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
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return Engine(spark, name, lake)


@pytest.mark.parametrize("way", WAYS)
def test_a_credential_is_all_that_spark_needs(
    spark: SparkSession, lake: Lake, engineer: User, namespace: str, way: str
) -> None:
    signatures = _signatures(lake)
    engine = with_credential(spark, lake, engineer.keys, way, mount=POLARIS)
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    engine.sql(f"INSERT INTO {t} VALUES (7)")
    engine.sql(f"DELETE FROM {t} WHERE id = 1")
    assert engine.sql(f"SELECT id FROM {t} ORDER BY id") == [(0,), (2,), (7,)]
    assert (_signatures(lake) > signatures) == (way == "remote-signing")


@pytest.mark.parametrize("way", WAYS)
def test_spark_is_refused_what_its_user_may_not(
    spark: SparkSession, lake: Lake, analyst: User, namespace: str, way: str
) -> None:
    writes = with_credential(spark, lake, root_keys(lake.server), way)
    writes.sql(f"CREATE TABLE {writes.table(namespace)} USING iceberg AS SELECT id FROM range(3)")
    reads = with_credential(spark, lake, analyst.keys, way)
    t = reads.table(namespace)
    assert reads.value(f"SELECT count(*) FROM {t}") == 3
    for statement in (f"INSERT INTO {t} VALUES (9)", f"DROP TABLE {t}"):
        with pytest.raises(Exception, match=r"Forbidden|Status Code: 403"):
            reads.sql(statement)


def test_a_wrong_secret_is_not_authorized(spark: SparkSession, lake: Lake, engineer: User, namespace: str) -> None:
    wrong = with_credential(spark, lake, Keys(engineer.keys.access_key, "not the secret"), WAYS[0])
    with pytest.raises(Exception, match="NotAuthorized"):
        wrong.sql(f"SELECT 1 FROM {wrong.table(namespace)}")


def _signatures(lake: Lake) -> int:
    return answered(lake.server, "signRequest") + answered(lake.server, "signS3Request")
