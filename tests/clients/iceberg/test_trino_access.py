"""Trino's access to the catalog and to files of tables: paths, permissions, credentials."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoQueryError

from tests.clients.boto import REGION, Connect, refused
from tests.clients.iceberg.lake import ALIAS, OWN, POLARIS, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.iceberg.trino import STATIC, TRINO_MARKS, VENDED, TrinoCatalog, new_catalog, reasons
from tests.clients.users import User, user_with_actions
from tests.fixtures.trino import TrinoServer

pytestmark = TRINO_MARKS


@pytest.mark.parametrize(("mount", "service"), [(OWN, "s3tables"), (ALIAS, "s3tables"), (POLARIS, "s3")])
def test_catalog_is_the_same_at_all_its_paths(
    trino_server: TrinoServer,
    lake: Lake,
    catalog: RestCatalog,
    engineer: User,
    namespace: str,
    mount: str,
    service: str,
) -> None:
    trino = new_catalog(trino_server, lake, engineer.keys, VENDED, mount=mount, service=service)
    trino.sql(f"CREATE SCHEMA {trino.schema(namespace, 'ä b')}")
    trino.sql(f"CREATE TABLE {trino.schema(namespace, 'ä b')}.t AS SELECT 1 AS id")
    assert ids_of(catalog.load_table((namespace, "ä b", "t"))) == [1]


def test_tables_are_written_and_read_without_s3_permissions(
    trino: TrinoCatalog, lake: Lake, engineer: User, namespace: str, connect: Connect, s3: Any
) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} AS SELECT id FROM UNNEST(sequence(1, 3)) s (id)")
    trino.sql(f"DELETE FROM {t} WHERE id = 2")
    assert trino.column(f"SELECT id FROM {t} ORDER BY id") == [1, 3]
    path = trino.value(f"SELECT file_path FROM {trino.table(namespace, 't$files')} WHERE content = 0")
    key = path.removeprefix(f"s3://{lake.warehouse}/")
    with refused("AccessDenied", 403):
        connect(lake.server, engineer.keys).get_object(Bucket=lake.warehouse, Key=key)
    assert s3.get_object(Bucket=lake.warehouse, Key=key)["Body"].read().startswith(b"PAR1")


def test_catalog_accepts_temporary_credentials(
    trino_server: TrinoServer, lake: Lake, catalog: RestCatalog, engineer: User, namespace: str
) -> None:
    """Trino assumes a role: its own keys sign AssumeRole, and the temporary credentials all other requests."""
    role = {
        "s3.iam-role": "arn:aws:iam::000000000000:role/engineers",
        "s3.sts.endpoint": lake.server.endpoint,
        "s3.sts.region": REGION,
    }
    assumed = new_catalog(trino_server, lake, engineer.keys, {**VENDED, **role})
    t = assumed.table(namespace)
    assumed.sql(f"CREATE TABLE {t} AS SELECT id FROM UNNEST(sequence(1, 3)) s (id)")
    assumed.sql(f"DELETE FROM {t} WHERE id = 2")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3]


def test_credentials_without_s3_permissions_open_no_files(
    trino_server: TrinoServer, lake: Lake, catalog: RestCatalog, namespace: str, engineer: User
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1))
    static = new_catalog(trino_server, lake, engineer.keys, STATIC)
    with pytest.raises(TrinoQueryError) as caught:
        static.sql(f"SELECT * FROM {static.table(namespace)}")
    assert "Status Code: 403" in reasons(caught.value)


def test_reader_reads_and_does_not_write(
    trino_server: TrinoServer, lake: Lake, catalog: RestCatalog, namespace: str, analyst: User
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1))
    reads = new_catalog(trino_server, lake, analyst.keys, VENDED)
    t = reads.table(namespace)
    assert reads.column(f"SELECT id FROM {t}") == [1]
    for statement in (
        f"INSERT INTO {t} VALUES (2, 'x', DATE '2026-01-01')",
        f"DELETE FROM {t} WHERE id = 1",
        f"ALTER TABLE {t} ADD COLUMN x INTEGER",
        f"ALTER TABLE {t} RENAME TO {reads.table(namespace, 'u')}",
        f"CREATE TABLE {reads.table(namespace, 'u')} (id BIGINT)",
        f"CREATE VIEW {reads.table(namespace, 'u')} AS SELECT 1 AS one",
        f"CREATE SCHEMA {reads.schema(namespace, 'u')}",
        f"DROP TABLE {t}",
    ):
        with pytest.raises(TrinoQueryError) as caught:
            reads.sql(statement)
        assert re.search(r"Status Code: 403|ForbiddenException", reasons(caught.value))
    assert ids_of(catalog.load_table((namespace, "t"))) == [1]
    assert catalog.list_tables(namespace) == [(namespace, "t")]


def test_absent_and_forbidden_tables_have_the_same_error(
    trino_server: TrinoServer,
    lake: Lake,
    catalog: RestCatalog,
    namespace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stranger = user_with_actions(lake.server, tmp_path_factory.mktemp("stranger"), "s3tables:GetTableBucket")
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1))
    sees = new_catalog(trino_server, lake, stranger.keys, VENDED)
    for name in ("t", "none"):
        with pytest.raises(TrinoQueryError) as caught:
            sees.sql(f"SELECT * FROM {sees.table(namespace, name)}")
        assert "ForbiddenException" in reasons(caught.value)
