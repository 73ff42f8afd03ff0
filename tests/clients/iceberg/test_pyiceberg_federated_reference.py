"""PyIceberg on a catalog federated with Iceberg's reference server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NoSuchTableError

from tests.clients.boto import root_keys
from tests.clients.iceberg.federated import HOSTS, connect
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.iceberg.test_pyiceberg_roles import ManagementApi, bearer
from tests.fixtures.reference_catalog import ReferenceCatalog
from tests.fixtures.server import running_server

pytestmark = [pytest.mark.integration, pytest.mark.heavy]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, reference_catalog: ReferenceCatalog) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("near") / "data"
    with running_server(folder, workers=1, **{HOSTS: "127.0.0.1"}) as server:
        yield connect(server, reference_catalog.uri)
        assert "request crashed" not in server.log_text(), server.log_text()[-4000:]


def test_reference_catalog_is_read_and_appended_to(lake: Lake) -> None:
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with lake.catalog() as catalog:
        catalog.create_namespace(name)
        table = catalog.create_table((name, "t"), SCHEMA, properties={"commit.retry.num-retries": "0"})
        table.append(people(1, 2, 3))
        table.delete("id = 2")
        assert ids_of(catalog.load_table((name, "t"))) == [1, 3]
        stale = catalog.load_table((name, "t"))
        table.append(people(4))
        with pytest.raises(CommitFailedException):
            stale.append(people(5))
        catalog.rename_table((name, "t"), (name, "u"))
        assert catalog.list_tables(name) == [(name, "u")]
        assert ids_of(catalog.load_table((name, "u"))) == [1, 3, 4]
        catalog.drop_table((name, "u"))
        with pytest.raises(NoSuchTableError):
            catalog.load_table((name, "u"))


def test_grants_apply_to_a_reference_catalog_without_any(lake: Lake) -> None:
    keys = root_keys(lake.server)
    management = ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key))
    name = f"ns_{uuid.uuid4().hex[:12]}"
    with lake.catalog() as catalog:
        catalog.create_namespace(name)
        for table in ("t", "other"):
            catalog.create_table((name, table), SCHEMA).append(people(1))
    reader = management.member("reader")
    management.grant(reader, "TABLE_READ_DATA", name, table="t")
    with reader.catalog() as catalog:
        # Files of this catalog need no credentials: they are on the same machine.
        assert ids_of(catalog.load_table((name, "t"))) == [1]
        with pytest.raises(ForbiddenError):
            catalog.load_table((name, "t")).append(people(2))
        with pytest.raises(ForbiddenError):
            catalog.load_table((name, "other"))
