"""Trino with an OAuth2 credential only."""

from __future__ import annotations

import uuid

import pytest
from trino.exceptions import TrinoQueryError

from tests.clients.boto import REGION, Keys
from tests.clients.iceberg.lake import OWN, Lake
from tests.clients.iceberg.trino import TRINO_MARKS, VENDED, TrinoCatalog, reasons
from tests.clients.users import User
from tests.fixtures.trino import TrinoServer

pytestmark = TRINO_MARKS


def with_credential(server: TrinoServer, lake: Lake, keys: Keys) -> TrinoCatalog:
    """A catalog with an OAuth2 credential and without access keys."""
    settings = {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{lake.server.endpoint}{OWN}",
        "iceberg.rest-catalog.warehouse": lake.warehouse,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.credential": f"{keys.access_key}:{keys.secret_key}",
        "iceberg.rest-catalog.oauth2.server-uri": f"{lake.server.endpoint}{OWN}/v1/oauth/tokens",
        "iceberg.rest-catalog.oauth2.scope": "PRINCIPAL_ROLE:ALL",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": lake.server.endpoint,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        **VENDED,
    }
    name = f"lake_{uuid.uuid4().hex[:8]}"
    listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
    server.sql(f"CREATE CATALOG {name} USING iceberg WITH ({listed})")
    return TrinoCatalog(server, name, lake)


def test_trino_needs_an_oauth_credential_only(
    trino_server: TrinoServer, lake: Lake, engineer: User, analyst: User, namespace: str
) -> None:
    writes = with_credential(trino_server, lake, engineer.keys)
    t = writes.table(namespace)
    writes.sql(f"CREATE TABLE {t} AS SELECT * FROM (VALUES 1, 2, 3) AS v (id)")
    writes.sql(f"DELETE FROM {t} WHERE id = 2")
    assert writes.column(f"SELECT id FROM {t} ORDER BY id") == [1, 3]
    reads = with_credential(trino_server, lake, analyst.keys)
    t = reads.table(namespace)
    assert reads.column(f"SELECT id FROM {t} ORDER BY id") == [1, 3]
    with pytest.raises(TrinoQueryError) as refusal:
        reads.sql(f"DROP TABLE {t}")
    assert "Forbidden" in reasons(refusal.value)
