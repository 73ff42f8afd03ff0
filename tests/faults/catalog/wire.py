"""The catalog and its files over one raw connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.fixtures.raw_http import Connection, Signer

LAKE: Final = "lake"
"""The table bucket."""

Json = Any
"""JSON documents."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the catalog."""

    status: int
    document: Json

    @property
    def kind(self) -> str:
        """The type of an error."""
        return str(self.document["error"]["type"]) if self.status >= 400 else ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the catalog that can be repeated unchanged."""

    method: str
    path: str
    document: Json = None
    key: str = ""
    """The Idempotency-Key, if it has one."""


class Wire:
    """One connection. All methods raise ConnectionError or TimeoutError if the server goes away."""

    def __init__(self, port: int) -> None:
        self._signer = Signer(f"127.0.0.1:{port}")
        self._connection = Connection(port, timeout=60.0)

    def close(self) -> None:
        self._connection.close()

    def call(self, call: Call) -> Reply:
        """Send a request to the catalog."""
        headers = {"idempotency-key": call.key} if call.key else {}
        body = b"" if call.document is None else json.dumps(call.document).encode()
        target = f"/iceberg/v1/{call.path}"
        response = self._connection.exchange(
            self._signer.request(call.method, target, headers, body), is_head=call.method == "HEAD"
        )
        return Reply(response.status, json.loads(response.body) if response.body else None)

    def request(self, method: str, path: str, document: Json = None) -> Reply:
        """Send a request that is not repeated."""
        return self.call(Call(method, path, document))

    def load(self, namespace: str, table: str) -> Json | None:
        """The loadTable response; None if the table does not exist."""
        reply = self.request("GET", table_path(namespace, table))
        if reply.status == 404 and reply.kind == "NoSuchTableException":
            return None
        assert reply.status == 200, reply
        return reply.document

    def put_files(self, files: Mapping[str, bytes]) -> None:
        """Store files at their locations."""
        for location, body in files.items():
            response = self._connection.exchange(self._signer.request("PUT", _target(location), None, body))
            assert response.status == 200, response

    def get_file(self, location: str) -> bytes | None:
        """The file at a location; None if absent."""
        response = self._connection.exchange(self._signer.request("GET", _target(location)))
        assert response.status in (200, 404), response
        return response.body if response.status == 200 else None

    def make_lake(self, *namespaces: str) -> None:
        """Create the table bucket and its namespaces."""
        response = self._connection.exchange(self._signer.request("PUT", f"/{LAKE}"))
        assert response.status == 200, response
        assert self.request("PUT", f"buckets/{LAKE}").status == 200
        for namespace in namespaces:
            reply = self.request("POST", f"{LAKE}/namespaces", {"namespace": [namespace]})
            assert reply.status == 200, reply


def tables_path(namespace: str) -> str:
    """The path of the tables of a namespace."""
    return f"{LAKE}/namespaces/{namespace}/tables"


def table_path(namespace: str, table: str) -> str:
    """The path of a table."""
    return f"{tables_path(namespace)}/{table}"


def _target(location: str) -> str:
    return f"/{location.removeprefix('s3://')}"
