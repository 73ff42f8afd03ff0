"""Spark with OAuth2 as three principals: an admin, a writer, and a reader restricted by row filters and column masks.

The restricted reader gets no credentials for the table's files; the server plans its scans over restricted copies.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakebed.client import LakebedClient
from lakebed.client.policies import namespace_target, table_target
from lakebed.core.jobs import JobKind
from lakebed.pipeline.worker import TaskResult, Worker
from tests.clients.boto import Keys, connected, root_keys
from tests.clients.iceberg.engine import SPARK_MARKS, Engine, answered, with_credential
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.test_pyiceberg_roles import ManagementApi, Member, bearer
from tests.fixtures.server import RunningServer, running_server
from tests.pipeline.maintenance_run import SOON, MaintainedLake, maintained_lake, own_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy, pytest.mark.usefixtures("own_signatures")]

DELEGATION_MODES: Final = ("vended-credentials", "remote-signing")
REFUSED: Final = r"Forbidden|Status Code: 403"
HIDDEN: Final = rf"{REFUSED}|Access Denied|Unable to load credentials"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, so that all of its tasks are of these tests."""
    with running_server(tmp_path_factory.mktemp("restricted") / "data", workers=2, **SOON) as running:
        yield running


@pytest.fixture(scope="module")
def place(
    server: RunningServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MaintainedLake]:
    """A catalog with a maintenance worker on this process' Spark."""
    with maintained_lake(server, tmp_path_factory.mktemp("worker")) as found:
        made = replace(found, lake=create_catalog(server))
        with running_worker(made):
            yield made


def create_catalog(server: RunningServer) -> Lake:
    """A catalog in a directory of a bucket of another name."""
    lake, keys = Lake(server, "people"), root_keys(server)
    with connected(server) as s3:
        s3.create_bucket(Bucket="sea")
    catalog = {
        "type": "INTERNAL",
        "name": lake.warehouse,
        "properties": {"default-base-location": "s3://sea/teams/people"},
        "storageConfigInfo": {"storageType": "S3"},
    }
    ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key)).call("POST", "/catalogs", {"catalog": catalog})
    return lake


@contextmanager
def running_worker(place: MaintainedLake) -> Iterator[None]:
    """Run a worker."""
    stop, failed = threading.Event(), list[TaskResult]()

    def record(ended: TaskResult) -> None:
        # A copy that is stopped at the end is no failure.
        if ended.report is None and not stop.is_set():
            failed.append(ended)

    def work() -> None:
        with LakebedClient(access=place.worker_access) as client:
            engine = own_runner(place)
            Worker(
                client.tasks,
                engine,
                name="beside the tests",
                kinds=[JobKind.COPY_RESTRICTED],
                lease_seconds=60.0,
                idle_seconds=3600.0,
                on_result=record,
            ).run(stop)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not failed, [ended.summary for ended in failed]


@dataclass(frozen=True)
class People:
    """Three principals with different grants on a namespace."""

    place: MaintainedLake
    management: ManagementApi
    admin: Member
    writer: Member
    reader: Member
    namespace: str

    def engine(self, spark: SparkSession, member: Member, mode: str = DELEGATION_MODES[0]) -> Engine:
        return with_credential(spark, self.place.lake, Keys(member.client_id, member.secret), mode)

    def policy(self, kind: str, **content: object) -> str:
        """Attach a policy to the namespace that restricts the reader's role."""
        name = f"p_{uuid.uuid4().hex[:8]}"
        document = {"enable": True, "restricts": {"principal-roles": [self.reader.name]}, **content}
        policies, namespace_path = self.place.client.policies, (self.namespace,)
        policies.create(self.place.lake.warehouse, namespace_path, name, kind, document)
        policies.attach(self.place.lake.warehouse, namespace_path, name, namespace_target(namespace_path))
        return name


@pytest.fixture
def people(place: MaintainedLake) -> People:
    keys = root_keys(place.lake.server)
    management = ManagementApi(place.lake, bearer(place.lake, keys.access_key, keys.secret_key))
    admin, writer, reader = (management.member(role) for role in ("admin", "writer", "reader"))
    namespace = place.namespace()
    management.grant(admin, "CATALOG_MANAGE_CONTENT")
    for privilege in ("TABLE_CREATE", "TABLE_READ_DATA", "TABLE_WRITE_DATA"):
        management.grant(writer, privilege, namespace)
    management.grant(reader, "TABLE_READ_DATA", namespace)
    # So that only the policies prevent the reader from writing.
    management.grant(reader, "TABLE_WRITE_DATA", namespace)
    return People(place, management, admin, writer, reader, namespace)


COLUMNS: Final = "id BIGINT, region STRING, email STRING, ssn STRING, born DATE, pay DECIMAL(9, 2), note STRING"
ROWS: Final = (
    "(1, 'EU', 'anna@example.org', '123-45-6789', DATE '1980-05-06', 10.50, 'a')",
    "(2, 'EU', 'b@x.io', '987-65-4321', DATE '1991-12-31', 20.00, NULL)",
    "(3, 'US', 'cy@example.com', '555-55-5555', DATE '2000-01-01', 30.00, 'it''s')",
    "(4, NULL, NULL, NULL, NULL, NULL, NULL)",
)


def create(engine: Engine, t: str, more: str = "") -> None:
    engine.sql(f"CREATE TABLE {t} ({COLUMNS}) USING iceberg {more}")
    engine.sql(f"INSERT INTO {t} VALUES {', '.join(ROWS)}")


def refused(*calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(Exception, match=HIDDEN):
            call()


@pytest.mark.parametrize("mode", DELEGATION_MODES)
def test_restricted_reader_sees_filtered_and_masked_rows(spark: SparkSession, people: People, mode: str) -> None:
    writer = people.engine(spark, people.writer, mode)
    t = writer.table(people.namespace)
    create(writer, t, "PARTITIONED BY (region, truncate(3, ssn)) TBLPROPERTIES ('format-version' = '3')")
    people.policy("lakebed.row-filter", filter={"type": "eq", "term": "region", "value": "EU"})
    people.policy(
        "lakebed.column-mask",
        columns={
            "email": {"mask": "partial", "first": 2, "last": 4},
            "ssn": {"mask": "hash", "salt": "pepper"},
            "born": "year",
            "pay": {"mask": "constant", "value": 0},
            "note": "null",
        },
    )
    admin = people.engine(spark, people.admin, mode)
    everything = admin.sql(f"SELECT * FROM {admin.table(people.namespace)} ORDER BY id")
    assert [row[0] for row in everything] == [1, 2, 3, 4]
    assert everything[0][3] == "123-45-6789"
    assert writer.value(f"SELECT count(*) FROM {t}") == 4

    reader = people.engine(spark, people.reader, mode)
    mine = reader.table(people.namespace)
    planned = answered(people.place.lake.server, "planTableScan")
    assert reader.sql(f"SELECT * FROM {mine} ORDER BY id") == [
        (1, "EU", "an****.org", _hash("123-45-6789"), date(1980, 1, 1), 0, None),
        (2, "EU", "****", _hash("987-65-4321"), date(1991, 1, 1), 0, None),
    ]
    assert answered(people.place.lake.server, "planTableScan") > planned
    # Filters apply to the masked values.
    assert reader.value(f"SELECT count(*) FROM {mine}") == 2
    assert reader.sql(f"SELECT id FROM {mine} WHERE region = 'US' OR id > 2") == []
    assert reader.sql(f"SELECT id FROM {mine} WHERE ssn = '123-45-6789'") == []
    assert reader.sql(f"SELECT id FROM {mine} WHERE ssn = '{_hash('987-65-4321')}'") == [(2,)]
    assert reader.sql(f"SELECT id FROM {mine} WHERE born < DATE '1985-01-01' AND note IS NULL") == [(1,)]

    assert people.reader.ask("GET", f"namespaces/{people.namespace}/tables/t/credentials").status == 403
    refused(
        lambda: reader.sql(f"INSERT INTO {mine} VALUES {ROWS[0]}"),
        lambda: reader.sql(f"DELETE FROM {mine} WHERE id = 1"),
        lambda: reader.sql(f"ALTER TABLE {mine} SET TBLPROPERTIES ('a' = 'b')"),
        lambda: reader.sql(f"DROP TABLE {mine}"),
    )
    with pytest.raises(Exception, match=r"lakebed:hidden|Forbidden|Unsupported|Cannot|Invalid"):
        reader.sql(f"SELECT * FROM {mine}.files")
    assert writer.value(f"SELECT count(*) FROM {t}") == 4


SELECTED: Final = "SELECT id FROM {t} WHERE id < 2 ORDER BY id"
ADMIN: Final = frozenset({"admin"})
WRITERS: Final = ADMIN | {"writer"}
EVERYBODY: Final = WRITERS | {"reader"}

STATEMENTS: Final = (
    (SELECTED, EVERYBODY),
    ("DESCRIBE TABLE {t}", EVERYBODY),
    ("SHOW TABLES IN {namespace_path}", EVERYBODY),
    ("SELECT snapshot_id FROM {t}.snapshots", EVERYBODY),
    ("INSERT INTO {t} VALUES (10)", WRITERS),
    ("UPDATE {t} SET id = 11 WHERE id = 10", WRITERS),
    ("DELETE FROM {t} WHERE id = 11", WRITERS),
    ("MERGE INTO {t} a USING (SELECT 5L AS id) b ON a.id = b.id WHEN MATCHED THEN DELETE", WRITERS),
    ("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')", WRITERS),
    ("ALTER TABLE {t} CREATE BRANCH {new}", WRITERS),
    ("ALTER TABLE {namespace_path}.wide ADD COLUMN {new} INT", WRITERS),
    ("CREATE TABLE {namespace_path}.{new} (id BIGINT) USING iceberg", WRITERS),
    ("CREATE TABLE {namespace_path}.{new} USING iceberg AS SELECT 1 AS id", WRITERS),
    ("ALTER TABLE {namespace_path}.wide RENAME TO {ns}.wider", ADMIN),
    ("DROP TABLE {namespace_path}.wider", ADMIN),
    ("CREATE VIEW {namespace_path}.{new} AS SELECT 1 AS one", ADMIN),
    ("CREATE NAMESPACE {namespace_path}.{new}", ADMIN),
    ("DROP NAMESPACE {namespace_path}.inner_one", ADMIN),
    ("DESCRIBE NAMESPACE {namespace_path}", ADMIN),
    ("SHOW NAMESPACES IN {catalog}", ADMIN),
    ("SHOW TABLES IN {elsewhere}", ADMIN),
    ("SELECT id FROM {elsewhere}.t", ADMIN),
    ("INSERT INTO {elsewhere}.t VALUES (1)", ADMIN),
)
"""Statements, and the principals that may run them."""


@pytest.mark.parametrize("mode", DELEGATION_MODES)
def test_principals_are_limited_to_their_grants(spark: SparkSession, people: People, mode: str) -> None:
    elsewhere = people.place.namespace()
    people.place.lake.call("POST", "namespaces", {"namespace": [people.namespace, "inner_one"]})
    people.management.grant(people.reader, "TABLE_WRITE_DATA", people.namespace, revoke=True)
    # The least privileged principal comes first, so that its refused statements are still executable later.
    engines = {
        name: people.engine(spark, member, mode)
        for name, member in (("reader", people.reader), ("writer", people.writer), ("admin", people.admin))
    }
    admin = engines["admin"]
    for table in (admin.table(people.namespace), admin.table(people.namespace, "wide"), admin.table(elsewhere)):
        admin.sql(f"CREATE TABLE {table} USING iceberg AS SELECT id FROM range(10)")

    def is_allowed(name: str, statement: str) -> bool:
        engine = engines[name]
        names = {
            "catalog": engine.catalog,
            "namespace_path": f"{engine.catalog}.{people.namespace}",
            "elsewhere": f"{engine.catalog}.{elsewhere}",
            "ns": people.namespace,
            "t": engine.table(people.namespace),
            "new": f"new_{uuid.uuid4().hex[:8]}",
        }
        try:
            engine.sql(statement.format_map(names))
        except Exception as error:  # a Java exception, raised by PySpark
            if re.search(REFUSED, str(error)) is None:
                raise
            return False
        return True

    found = {statement: {name for name in engines if is_allowed(name, statement)} for statement, _ in STATEMENTS}
    assert found == dict(STATEMENTS)

    # A revoked grant takes effect with the next statement, and other grants stay.
    people.management.grant(people.writer, "TABLE_WRITE_DATA", people.namespace, revoke=True)
    assert not is_allowed("writer", "INSERT INTO {t} VALUES (12)")
    assert is_allowed("writer", SELECTED)
    people.management.grant(people.writer, "TABLE_READ_DATA", people.namespace, revoke=True)
    assert not is_allowed("writer", SELECTED)
    assert is_allowed("reader", SELECTED)


def test_restricted_view_follows_changes_of_table_and_policies(spark: SparkSession, people: People) -> None:
    writer, reader = people.engine(spark, people.writer), people.engine(spark, people.reader)
    t, mine = writer.table(people.namespace), reader.table(people.namespace)
    create(writer, t)
    name = people.policy("lakebed.row-filter", filter={"type": "lt", "term": "id", "value": 3})
    assert reader.sql(f"SELECT id FROM {mine} ORDER BY id") == [(1,), (2,)]

    first = writer.value(f"SELECT snapshot_id FROM {t}.snapshots")
    writer.sql(f"INSERT INTO {t} VALUES (0, 'EU', NULL, NULL, NULL, NULL, NULL)")
    admin = people.engine(spark, people.admin)
    for change in ("RENAME COLUMN id TO number", "ADD COLUMN later INT"):
        admin.sql(f"ALTER TABLE {admin.table(people.namespace)} {change}")
    # The filter names a dropped column: no rows are shown.
    refused(lambda: reader.sql(f"SELECT * FROM {mine}"))
    _update(people, name, 0, {"type": "lt", "term": "number", "value": 2})
    assert reader.sql(f"SELECT number, later FROM {mine} ORDER BY number") == [(0, None), (1, None)]
    assert reader.sql(f"SELECT id FROM {mine} VERSION AS OF {first}") == [(1,)]

    _update(people, name, 1, {"type": "not", "child": {"type": "is-null", "term": "region"}})
    assert [row[0] for row in reader.sql(f"SELECT number FROM {mine} ORDER BY number")] == [0, 1, 2, 3]
    _update(people, name, 2, False)
    assert reader.sql(f"SELECT * FROM {mine}") == []

    namespace_path = (people.namespace,)
    people.place.client.policies.detach(
        people.place.lake.warehouse, namespace_path, name, namespace_target(namespace_path)
    )
    assert reader.value(f"SELECT count(*) FROM {mine}") == 5
    reader.sql(f"DELETE FROM {mine} WHERE number = 0")
    people.place.client.policies.attach(
        people.place.lake.warehouse, namespace_path, name, table_target(namespace_path, "t")
    )
    assert reader.sql(f"SELECT * FROM {mine}") == []


def test_values_of_a_policy_are_never_run_as_sql(spark: SparkSession, people: People) -> None:
    writer, reader = people.engine(spark, people.writer), people.engine(spark, people.reader)
    t, mine = writer.table(people.namespace), reader.table(people.namespace)
    column = "a`) OR (TRUE --"
    quoted = column.replace("`", "``")
    # Spark redacts the value of the last column, because of its name.
    writer.sql(f"CREATE TABLE {t} (`{quoted}` STRING, `b c` STRING, token_url STRING) USING iceberg")
    evil = "x' OR '1' = '1\\"
    escaped = evil.replace("\\", "\\\\").replace("'", "\\'")
    writer.sql(f"INSERT INTO {t} VALUES ('{escaped}', 'shown', 'x'), ('other', 'hidden', 'y')")
    people.policy("lakebed.row-filter", filter={"type": "eq", "term": column, "value": evil})
    people.policy("lakebed.column-mask", columns={"b c": {"mask": "constant", "value": evil}})
    assert reader.sql(f"SELECT * FROM {mine}") == [(evil, evil, "x")]


def _hash(text: str) -> str:
    return sha256(f"pepper{text}".encode()).hexdigest()


def _update(people: People, name: str, version: int, condition: Any) -> None:  # Any: JSON
    content = {"enable": True, "restricts": {"principal-roles": [people.reader.name]}, "filter": condition}
    people.place.client.policies.update(
        people.place.lake.warehouse, (people.namespace,), name, content, current_version=version
    )
