"""Spark's access to files of tables: permissions, credentials, and their refresh."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.boto import Connect, refused
from tests.clients.iceberg.engine import SIGNED, SPARK_MARKS, VENDED, AccessMode, Engine, answered, new_engine
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.users import User, administer, user_with_actions
from tests.fixtures.server import RunningServer, running_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.mark.parametrize("mode", ["vended", "signed"])
def test_tables_are_written_and_read_without_s3_permissions(
    request: pytest.FixtureRequest, mode: str, lake: Lake, engineer: User, namespace: str, connect: Connect, s3: Any
) -> None:
    engine: Engine = request.getfixturevalue(mode)
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    assert engine.value(f"SELECT count(*) FROM {t}") == 3
    settings = dict(engine.spark.sparkContext.getConf().getAll()) | {
        name: str(engine.spark.conf.get(f"spark.sql.catalog.{engine.catalog}.{name}", ""))
        for name in ("s3.access-key-id", "client.access-key-id", "client.credentials-provider")
    }
    assert not any(value for name, value in settings.items() if "access-key" in name or "credentials" in name)
    key = engine.value(f"SELECT file_path FROM {t}.files LIMIT 1").removeprefix(f"s3://{lake.warehouse}/")
    with refused("AccessDenied", 403):
        connect(lake.server, engineer.keys).get_object(Bucket=lake.warehouse, Key=key)
    assert s3.get_object(Bucket=lake.warehouse, Key=key)["Body"].read().startswith(b"PAR1")


@pytest.mark.parametrize("mode", [VENDED, SIGNED], ids=lambda mode: mode.name)
def test_reader_reads_and_does_not_write(
    spark: SparkSession,
    lake: Lake,
    vended: Engine,
    namespace: str,
    mode: AccessMode,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    analyst = user_with_actions(lake.server, tmp_path_factory.mktemp("analyst"), "s3tables:Get*", "s3tables:List*")
    vended.sql(f"CREATE TABLE {vended.table(namespace)} USING iceberg AS SELECT id FROM range(3)")
    reads = new_engine(spark, lake, mode, analyst.keys)
    t = reads.table(namespace)
    assert reads.value(f"SELECT count(*) FROM {t}") == 3
    for statement in (
        f"INSERT INTO {t} VALUES (9)",
        f"DELETE FROM {t}",
        f"ALTER TABLE {t} ADD COLUMN x INT",
        f"CREATE TABLE {t}_2 USING iceberg AS SELECT 1 AS id",
        f"DROP TABLE {t}",
    ):
        with pytest.raises(Exception, match=r"Forbidden|Status Code: 403"):
            reads.sql(statement)
    assert vended.value(f"SELECT count(*) FROM {vended.table(namespace)}") == 3


def test_without_delegation_spark_uses_its_static_credentials(
    spark: SparkSession, lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The entry of storage-credentials has a prefix and no secrets, so Spark keeps using its own credentials."""
    quiet = new_lake(lakebed_server)
    change = {"updates": {"access-delegation": "none"}}
    assert quiet.request("POST", f"buckets/{quiet.warehouse}/properties", change).status == 200
    engineer = user_with_actions(lakebed_server, tmp_path_factory.mktemp("engineer"), "s3tables:*", "s3:*")
    mode = AccessMode("own", settings=VENDED.settings, static_credentials=True)
    engine = new_engine(spark, quiet, mode, engineer.keys)
    engine.sql(f"CREATE NAMESPACE {engine.catalog}.ns")
    t = engine.table("ns")
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    engine.sql(f"INSERT INTO {t} VALUES (9)")
    assert engine.value(f"SELECT count(*) FROM {t}") == 4
    engine.sql(f"CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT id FROM range(2)")
    assert engine.value(f"SELECT count(*) FROM {t}") == 2


def test_absent_and_forbidden_tables_have_the_same_error(
    spark: SparkSession, lake: Lake, vended: Engine, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = user_with_actions(lake.server, tmp_path_factory.mktemp("stranger"), "s3tables:GetTableBucket")
    vended.sql(f"CREATE TABLE {vended.table(namespace)} USING iceberg AS SELECT id FROM range(3)")
    engine = new_engine(spark, lake, VENDED, stranger.keys)
    for name in ("t", "none"):
        with pytest.raises(Exception, match="ForbiddenException"):
            engine.sql(f"SELECT * FROM {engine.table(namespace, name)}")


def test_signatures_are_not_shared_between_users_of_a_process(
    spark: SparkSession, lake: Lake, engineer: User, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One user reads a file; the other then requests the same URI with the file system of its own table."""
    owner = new_engine(spark, lake, SIGNED, engineer.keys)
    for name in ("secret", "shared"):
        owner.sql(f"CREATE TABLE {owner.table(namespace, name)} USING iceberg AS SELECT id FROM range(3)")
    folder = tmp_path_factory.mktemp("guest")
    guest = user_with_actions(lake.server, folder, "s3tables:*")
    condition = {"StringEquals": {"s3tables:tableName": "secret"}}
    denial = {"Effect": "Deny", "Action": "s3tables:*", "Resource": "*", "Condition": condition}
    (folder / "denial.json").write_text(json.dumps({"Version": "2012-10-17", "Statement": [denial]}))
    administer(lake.server, "policy", "put", guest.name, "denial", str(folder / "denial.json"))
    guests = new_engine(spark, lake, SIGNED, guest.keys)
    assert guests.value(f"SELECT count(*) FROM {guests.table(namespace, 'shared')}") == 3
    path = owner.value(f"SELECT file_path FROM {owner.table(namespace, 'secret')}.files LIMIT 1")

    def first_bytes(engine: Engine, name: str) -> bytes:
        java: Any = spark._jvm  # Any: Java classes
        table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, engine.table(namespace, name)
        )
        stream = table.io().newInputFile(path).newStream()
        try:
            return bytes([stream.read() for _ in range(4)])
        finally:
            stream.close()

    assert first_bytes(owner, "secret") == b"PAR1"
    with pytest.raises(Exception, match=r"Forbidden|Status Code: 403"):
        first_bytes(guests, "shared")


# -- expiring credentials--------------------------------------------------------------------------------------------

SHORT_SECONDS = 60
"""The shortest configurable lifetime of vended credentials."""


@dataclass(frozen=True, slots=True)
class ShortLivedCredentials:
    """A table bucket on a server with short-lived vended credentials."""

    lake: Lake
    user: User

    def refreshes(self) -> int:
        """The number of successful credential refreshes."""
        return answered(self.lake.server, "loadCredentials")


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShortLivedCredentials]:
    folder = tmp_path_factory.mktemp("short_lived")
    flag = f"tables.credential_ttl={SHORT_SECONDS}"
    server: RunningServer
    with running_server(folder / "data", "--set", flag, workers=1) as server:
        yield ShortLivedCredentials(new_lake(server), user_with_actions(server, folder, "s3tables:*"))


def test_credentials_are_refreshed_during_long_writes(spark: SparkSession, short_lived: ShortLivedCredentials) -> None:
    """A write that takes longer than the credentials live, to an existing table and to tables it creates."""
    vended = new_engine(spark, short_lived.lake, VENDED, short_lived.user.keys)
    signed = new_engine(spark, short_lived.lake, SIGNED, short_lived.user.keys)
    vended.sql(f"CREATE NAMESPACE {vended.catalog}.ns")
    vended.sql(f"CREATE TABLE {vended.table('ns', 'existing')} (id BIGINT, slept STRING) USING iceberg")
    slow = (
        f"SELECT id, java_method('java.lang.Thread', 'sleep', {(SHORT_SECONDS + 15) * 1000}L) AS slept"
        " FROM range(0, 1, 1, 1)"
    )
    before = short_lived.refreshes()
    statements = [
        (vended, f"INSERT INTO {vended.table('ns', 'existing')} {slow}"),
        (vended, f"CREATE TABLE {vended.table('ns', 'staged')} USING iceberg AS {slow}"),
    ]
    with ThreadPoolExecutor(len(statements)) as threads:
        for done in [threads.submit(engine.sql, statement) for engine, statement in statements]:
            done.result()
    assert short_lived.refreshes() >= before + len(statements)
    signed.sql(f"CREATE TABLE {signed.table('ns', 'signed')} USING iceberg AS {slow}")
    for engine, name in ((vended, "existing"), (vended, "staged"), (signed, "signed")):
        assert engine.value(f"SELECT count(*) FROM {engine.table('ns', name)}") == 1
