"""PyIceberg's access to the catalog at three paths, and to files in three modes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, RESTError, SignError, UnauthorizedError
from pyiceberg.io.fsspec import SIGNERS, S3V4RestSigner
from pyiceberg.table import Table
from pyiceberg.typedef import Properties
from pyiceberg.utils.concurrent import ExecutorFactory

from tests.clients.boto import Keys, root_keys
from tests.clients.iceberg.lake import ALIAS, DELEGATION, OWN, POLARIS, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.users import User

pytestmark = pytest.mark.integration


def use(catalog: RestCatalog, namespace: str) -> Table:
    """Create a table directly and another one staged; write, change and read it."""
    table = catalog.create_table((namespace, "t"), SCHEMA)
    table.append(people(1, 2, 3))
    table.delete("id = 2")
    with catalog.create_table_transaction((namespace, "staged"), SCHEMA) as staged:
        staged.append(people(4))
    assert ids_of(catalog.load_table((namespace, "staged"))) == [4]
    read: Table = catalog.load_table((namespace, "t"))
    assert ids_of(read) == [1, 3]
    return read


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["s3", "s3tables"])
@pytest.mark.parametrize("mount", [OWN, ALIAS, POLARIS])
def test_catalog_is_the_same_at_all_its_paths(
    lake: Lake, catalog: RestCatalog, namespace: str, mount: str, service: str
) -> None:
    with lake.catalog(mount=mount, service=service) as elsewhere:
        elsewhere.create_namespace((namespace, "ä b"))
        table = elsewhere.create_table((namespace, "ä b", "t.1"), SCHEMA)
        table.append(people(1))
        assert elsewhere.list_tables((namespace, "ä b")) == [(namespace, "ä b", "t.1")]
    assert ids_of(catalog.load_table((namespace, "ä b", "t.1"))) == [1]


@pytest.mark.parametrize(
    "warehouse", ["{}", "s3://{}/", "s3://{}", "arn:aws:s3tables:us-east-1:000000000000:bucket/{}"]
)
def test_warehouse_parameter_has_several_forms(lake: Lake, namespace: str, warehouse: str) -> None:
    named = Lake(lake.server, warehouse.format(lake.warehouse))
    with named.catalog() as catalog:
        assert catalog.namespace_exists(namespace)


def test_invalid_credentials_and_absent_warehouses_have_different_errors(lake: Lake) -> None:
    with pytest.raises(RESTError, match="NoSuchWarehouse"), Lake(lake.server, "no-such-bucket").catalog():
        pass
    root = root_keys(lake.server)
    for keys in (Keys("AKIAUNKNOWNACCESSKEY", "secret"), Keys(root.access_key, "not the secret")):
        with pytest.raises((UnauthorizedError, ForbiddenError)), lake.catalog(keys):
            pass


def test_unsigned_request_is_refused(lake: Lake) -> None:
    settings = {"uri": f"{lake.server.endpoint}{OWN}", "warehouse": lake.warehouse}
    with pytest.raises((UnauthorizedError, BadRequestError)):
        RestCatalog("lake", **settings)


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_are_accessible_with_the_clients_own_credentials(lake: Lake, namespace: str, insider: User) -> None:
    keys = insider.keys
    own = {DELEGATION: "", "s3.access-key-id": keys.access_key, "s3.secret-access-key": keys.secret_key}
    with lake.catalog(keys, properties=own) as catalog:
        table = use(catalog, namespace)
        assert table.io.properties["s3.access-key-id"] == keys.access_key
        assert "s3.session-token" not in table.io.properties
        assert table.io.properties["s3.endpoint"] == lake.server.endpoint


def test_files_are_accessible_with_vended_credentials(lake: Lake, namespace: str, engineer: User) -> None:
    with lake.catalog(engineer.keys) as catalog:
        table = use(catalog, namespace)
        assert table.io.properties["s3.access-key-id"] != engineer.keys.access_key
        assert table.io.properties["s3.session-token"]


def test_vended_credentials_of_a_reader_are_read_only(
    lake: Lake, catalog: RestCatalog, namespace: str, analyst: User
) -> None:
    use(catalog, namespace)
    with lake.catalog(analyst.keys) as reading:
        table = reading.load_table((namespace, "t"))
        assert ids_of(table) == [1, 3]
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            table.append(people(9))
        with pytest.raises(ForbiddenError):
            reading.create_table((namespace, "other"), SCHEMA)
        with pytest.raises(ForbiddenError):
            reading.drop_table((namespace, "t"))
        with pytest.raises(ForbiddenError), table.transaction() as transaction:
            transaction.set_properties(mine="yes")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3]


# -- signing -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def signing(lake: Lake, engineer: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalog]:
    """PyIceberg with remote signing.

    PyIceberg's signer supports only bearer tokens for its signing requests; here the adapter that signs other catalog
    requests signs them.

    Runs in one thread: PyIceberg 0.12 replaces the signer whenever a thread opens the table, and concurrent requests
    in between are sent unsigned.
    """
    with (
        lake.catalog(engineer.keys, properties={DELEGATION: "remote-signing"}) as catalog,
        ThreadPoolExecutor(1) as one_thread,
    ):

        class SignedSigner(S3V4RestSigner):
            def __init__(self, properties: Properties) -> None:
                super().__init__(properties)
                catalog._init_sigv4(self._session)

        monkeypatch.setitem(SIGNERS, "S3V4RestSigner", SignedSigner)
        monkeypatch.setattr(ExecutorFactory, "get_or_create", lambda: one_thread)
        yield catalog


def test_files_are_accessible_with_remote_signing(signing: RestCatalog, namespace: str) -> None:
    table = use(signing, namespace)
    assert type(table.io).__name__ == "FsspecFileIO"
    assert "s3.access-key-id" not in table.io.properties


def test_two_tables_are_read_alternately_with_remote_signing(signing: RestCatalog, namespace: str) -> None:
    """PyIceberg sends the requests of all open tables to the signer of the table that was opened last."""
    first, second = (signing.create_table((namespace, name), SCHEMA) for name in ("first", "second"))
    for table, number in ((first, 1), (second, 2), (first, 3), (second, 4)):
        table.append(people(number))
    assert (ids_of(first), ids_of(second), ids_of(first)) == ([1, 3], [2, 4], [1, 3])


def test_large_file_is_uploaded_in_signed_parts(signing: RestCatalog, namespace: str) -> None:
    table = signing.create_table((namespace, "t"), SCHEMA)
    with table.io.new_output(f"{table.location()}/data/large").create() as file:
        for number in range(120):
            file.write(bytes([number]) * 1024 * 1024)
    source = table.io.new_input(f"{table.location()}/data/large")
    assert len(source) == 120 * 1024 * 1024
    with source.open() as stream:
        stream.seek(119 * 1024 * 1024 - 1)
        assert stream.read(2) == bytes([118, 119])


def test_remote_signing_is_limited_to_files_of_tables(
    lake: Lake, signing: RestCatalog, namespace: str, s3: Any
) -> None:
    table = signing.create_table((namespace, "t"), SCHEMA)
    s3.put_object(Bucket=lake.warehouse, Key="loose/file", Body=b"1")
    with pytest.raises(SignError, match="Failed to sign request 403"):
        table.io.new_input(f"s3://{lake.warehouse}/loose/file").open().read()
