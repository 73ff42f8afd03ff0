"""PyIceberg as a user with table permissions and without S3 permissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError

from tests.clients.boto import root_keys
from tests.clients.sdk.test_vended_credentials import call
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def catalog_of(server: RunningServer, user: User, warehouse: str, **more: str) -> Catalog:
    return load_catalog(
        "lake",
        **{
            "type": "rest",
            "uri": f"{server.endpoint}/iceberg",
            "warehouse": warehouse,
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3",
            "rest.signing-region": "us-east-1",
            # For the catalog; files are accessed with vended credentials.
            "client.access-key-id": user.keys.access_key,
            "client.secret-access-key": user.keys.secret_key,
            **more,
        },
    )


@pytest.fixture
def warehouse(lakebed_server: RunningServer, s3: Any, bucket: str) -> str:
    call(lakebed_server, root_keys(lakebed_server), "PUT", f"buckets/{bucket}")
    return bucket


def test_tables_are_created_written_and_read_with_vended_credentials(
    lakebed_server: RunningServer, warehouse: str, tmp_path: Path
) -> None:
    engine = user_with_actions(lakebed_server, tmp_path, "s3tables:*")
    catalog = catalog_of(lakebed_server, engine, warehouse)
    catalog.create_namespace("ns")
    table = catalog.create_table(("ns", "t"), schema=ROWS.schema)
    assert table.io.properties["s3.access-key-id"].startswith("LKBT")
    table.append(ROWS)
    assert catalog.load_table(("ns", "t")).scan().to_arrow() == ROWS


def test_staged_table_is_written_before_it_is_committed(
    lakebed_server: RunningServer, warehouse: str, tmp_path: Path
) -> None:
    engine = user_with_actions(lakebed_server, tmp_path, "s3tables:*")
    catalog = catalog_of(lakebed_server, engine, warehouse)
    catalog.create_namespace("ns")
    with catalog.create_table_transaction(("ns", "t"), schema=ROWS.schema) as staged:
        staged.append(ROWS)
    assert catalog.load_table(("ns", "t")).scan().to_arrow() == ROWS


def test_reader_reads_and_does_not_write(lakebed_server: RunningServer, warehouse: str, tmp_path: Path) -> None:
    engine = user_with_actions(lakebed_server, tmp_path, "s3tables:*")
    catalog = catalog_of(lakebed_server, engine, warehouse)
    catalog.create_namespace("ns")
    catalog.create_table(("ns", "t"), schema=ROWS.schema).append(ROWS)
    analyst = user_with_actions(lakebed_server, tmp_path, "s3tables:Get*")
    table = catalog_of(lakebed_server, analyst, warehouse).load_table(("ns", "t"))
    assert table.scan().to_arrow() == ROWS
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        table.append(ROWS)
    stranger = user_with_actions(
        lakebed_server, tmp_path, "s3tables:GetTableBucket", "s3tables:GetTableMetadataLocation", "s3:*"
    )
    with pytest.raises(ForbiddenError):
        catalog_of(lakebed_server, stranger, warehouse).load_table(("ns", "t"))


def test_without_vended_credentials_the_client_uses_its_own(
    lakebed_server: RunningServer, s3: Any, warehouse: str, tmp_path: Path
) -> None:
    """A catalog property disables vending: the client gets the prefix and uses its own credentials."""
    root = root_keys(lakebed_server)
    change = {"updates": {"access-delegation": "none"}}
    call(lakebed_server, root, "POST", f"buckets/{warehouse}/properties", change)
    engine = user_with_actions(lakebed_server, tmp_path, "s3tables:*", "s3:*")
    own = {"s3.access-key-id": engine.keys.access_key, "s3.secret-access-key": engine.keys.secret_key}
    catalog = catalog_of(lakebed_server, engine, warehouse, **own)
    catalog.create_namespace("ns")
    table = catalog.create_table(("ns", "t"), schema=ROWS.schema)
    assert table.io.properties["s3.access-key-id"] == engine.keys.access_key
    assert table.io.properties["lakebed.credential-vending"] == "disabled"
    table.append(ROWS)
    assert catalog.load_table(("ns", "t")).scan().to_arrow() == ROWS
    with catalog.create_table_transaction(("ns", "u"), schema=ROWS.schema) as staged:
        staged.append(ROWS)
    assert catalog.load_table(("ns", "u")).scan().to_arrow() == ROWS
