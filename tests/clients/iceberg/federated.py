"""Federated catalogs of a running server."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from tests.clients.boto import connected, root_keys
from tests.clients.iceberg.lake import OWN, Lake
from tests.clients.plain_http import Answer, fetch
from tests.clients.signing import Signer
from tests.fixtures.server import RunningServer

HOSTS = "LAKEBED_FEDERATION__HOSTS"


def administered(server: RunningServer, method: str, path: str, document: object = None) -> Answer:
    """Send one request to the administration API, signed by root. `path` follows `/lakebed/v1/`."""
    url = f"{server.endpoint}/lakebed/v1/{path}"
    body = b"" if document is None else json.dumps(document).encode()
    headers = Signer(root_keys(server)).headers(method, url, hashlib.sha256(body).hexdigest())
    return fetch(method, url, headers=headers, body=body)


def connect(near: RunningServer, uri: str, **connection: Any) -> Lake:
    """Create a catalog federated with the catalog at `uri`."""
    lake = Lake(near, f"behind-{uuid.uuid4().hex[:16]}")
    with connected(near) as s3:
        s3.create_bucket(Bucket=lake.warehouse)
    assert lake.request("PUT", f"buckets/{lake.warehouse}").status == 200
    document = {"connectionType": "ICEBERG_REST", "uri": uri, **connection}
    answer = administered(near, "PUT", f"connections/{lake.warehouse}", document)
    assert answer.status == 200, answer.body
    return lake


def connect_to_lake(near: RunningServer, far: Lake) -> Lake:
    """Create a catalog federated with a table bucket of another server, with OAuth and root's credentials."""
    keys = root_keys(far.server)
    return connect(
        near,
        f"{far.server.endpoint}{OWN}",
        remoteCatalogName=far.warehouse,
        authenticationParameters={
            "authenticationType": "OAUTH",
            "clientId": keys.access_key,
            "clientSecret": keys.secret_key,
            "scopes": ["PRINCIPAL_ROLE:ALL"],
        },
    )
