"""The catalog and its files over one connection, with nothing between the test and the bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.fixtures.raw_http import Connection, Signer

LAKE: Final = "lake"
"""The table bucket."""

Json = Any
"""Documents as the wire has them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    document: Json

    @property
    def kind(self) -> str:
        """The type of an error."""
        return str(self.document["error"]["type"]) if self.status >= 400 else ""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the catalog that can be sent again as it is."""

    method: str
    path: str
    document: Json = None
    key: str = ""
    """The Idempotency-Key, if it has one."""


class Wire:
    """One connection. Everything raises ConnectionError or TimeoutError when the other side goes away."""

    def __init__(self, port: int) -> None:
        self._signer = Signer(f"127.0.0.1:{port}")
        self._connection = Connection(port, timeout=60.0)

    def close(self) -> None:
        self._connection.close()

    def call(self, call: Call) -> Reply:
        """Ask the catalog."""
        headers = {"idempotency-key": call.key} if call.key else {}
        body = b"" if call.document is None else json.dumps(call.document).encode()
        target = f"/iceberg/v1/{call.path}"
        answer = self._connection.ask(
            self._signer.request(call.method, target, headers, body), is_head=call.method == "HEAD"
        )
        return Reply(answer.status, json.loads(answer.body) if answer.body else None)

    def ask(self, method: str, path: str, document: Json = None) -> Reply:
        """Ask the catalog something that is not sent again."""
        return self.call(Call(method, path, document))

    def load(self, namespace: str, table: str) -> Json | None:
        """A table as loadTable shows it; None if there is none."""
        reply = self.ask("GET", table_path(namespace, table))
        if reply.status == 404 and reply.kind == "NoSuchTableException":
            return None
        assert reply.status == 200, reply
        return reply.document

    def put_files(self, files: Mapping[str, bytes]) -> None:
        """Store files at their locations."""
        for location, body in files.items():
            answer = self._connection.ask(self._signer.request("PUT", _target(location), None, body))
            assert answer.status == 200, answer

    def get_file(self, location: str) -> bytes | None:
        """What is at a location; None if nothing is."""
        answer = self._connection.ask(self._signer.request("GET", _target(location)))
        assert answer.status in (200, 404), answer
        return answer.body if answer.status == 200 else None

    def make_lake(self, *namespaces: str) -> None:
        """The table bucket and its namespaces."""
        answer = self._connection.ask(self._signer.request("PUT", f"/{LAKE}"))
        assert answer.status == 200, answer
        assert self.ask("PUT", f"buckets/{LAKE}").status == 200
        for namespace in namespaces:
            made = self.ask("POST", f"{LAKE}/namespaces", {"namespace": [namespace]})
            assert made.status == 200, made


def tables_path(namespace: str) -> str:
    """Where a namespace's tables are."""
    return f"{LAKE}/namespaces/{namespace}/tables"


def table_path(namespace: str, table: str) -> str:
    """Where a table is."""
    return f"{tables_path(namespace)}/{table}"


def _target(location: str) -> str:
    return f"/{location.removeprefix('s3://')}"
