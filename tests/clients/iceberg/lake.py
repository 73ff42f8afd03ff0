"""A table bucket of a running server, with PyIceberg's catalog and plain requests."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import REGION, Keys, connected, root_keys
from tests.clients.plain_http import Answer, fetch
from tests.clients.signing import Signer
from tests.fixtures.server import RunningServer

OWN: Final = "/iceberg"
ALIAS: Final = "/_iceberg"
POLARIS: Final = "/api/catalog"

DELEGATION: Final = "header.X-Iceberg-Access-Delegation"


@dataclass(frozen=True, slots=True)
class Lake:
    """A table bucket."""

    server: RunningServer
    warehouse: str

    def request(self, method: str, path: str, document: object = None, *, keys: Keys | None = None) -> Answer:
        """One request to the catalog, by default signed by root. `path` follows `/v1/`."""
        url = f"{self.server.catalog_endpoint}{OWN}/v1/{path}"
        body = b"" if document is None else json.dumps(document).encode()
        signer = Signer(keys or root_keys(self.server))
        return fetch(method, url, headers=signer.headers(method, url, hashlib.sha256(body).hexdigest()), body=body)

    def call(self, method: str, path: str, document: object = None, *, keys: Keys | None = None) -> Any:  # Any: JSON
        """A request within the catalog that must succeed; the response document, if there is one."""
        answer = self.request(method, f"{self.warehouse}/{path}", document, keys=keys)
        assert answer.status in (200, 204), answer.body
        return json.loads(answer.body) if answer.body else None

    @contextmanager
    def catalog(
        self,
        keys: Keys | None = None,
        *,
        mount: str = OWN,
        service: str = "s3",
        properties: Mapping[str, str] | None = None,
    ) -> Iterator[RestCatalog]:
        """PyIceberg's catalog, by default as root, with vended credentials."""
        keys = keys or root_keys(self.server)
        settings = {
            "uri": f"{self.server.catalog_endpoint}{mount}",
            "warehouse": self.warehouse,
            "rest.sigv4-enabled": "true",
            "rest.signing-name": service,
            "rest.signing-region": REGION,
            "client.access-key-id": keys.access_key,
            "client.secret-access-key": keys.secret_key,
        }
        with closing(RestCatalog("lake", **settings, **(properties or {}))) as catalog:
            yield catalog


def new_lake(server: RunningServer) -> Lake:
    """Create a table bucket."""
    lake = Lake(server, f"lake-{uuid.uuid4().hex[:20]}")
    with connected(server) as s3:
        s3.create_bucket(Bucket=lake.warehouse)
    answer = lake.request("PUT", f"buckets/{lake.warehouse}")
    assert answer.status == 200, answer.body
    return lake
