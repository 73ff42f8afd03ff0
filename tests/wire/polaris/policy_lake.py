"""A client of the Polaris policy API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake

BASES = ("", "/iceberg", "/_iceberg", "/api/catalog")
"""The base paths of the routes."""

COMPACTION = "system.data-compaction"
EXPIRY = "system.snapshot-expiry"
ON = '{"enable": true}'
OFF = '{"enable": false}'
CATALOG: dict[str, Any] = {"type": "catalog"}
NAMESPACE: dict[str, Any] = {"type": "namespace", "path": ["ns"]}
TABLE: dict[str, Any] = {"type": "table-like", "path": ["ns", "t"]}
VIEW: dict[str, Any] = {"type": "table-like", "path": ["ns", "v"]}


@dataclass(frozen=True, slots=True)
class PolicyLake:
    """The policy API of a server."""

    lake: Lake

    async def call(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        base: str = "",
        keys: Keys = ROOT_KEYS,
        **headers: str,
    ) -> Answer:
        """Send a request; `path` follows the name of the table bucket."""
        body = b"" if document is None else json.dumps(document).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.lake.send(method, f"{base}/polaris/v1/lake{path}", body, sent, keys=keys)

    async def create(
        self, name: str = "p", kind: str = COMPACTION, content: str = ON, *, keys: Keys = ROOT_KEYS, **more: Any
    ) -> Answer:
        """Create a policy in `ns`."""
        document = {"name": name, "type": kind, "content": content, **more}
        return await self.call("POST", "/namespaces/ns/policies", document, keys=keys)

    async def attach(self, target: object, name: str = "p", *, keys: Keys = ROOT_KEYS, **parameters: str) -> Answer:
        """Attach a policy of `ns`."""
        document = {"target": target, **({"parameters": parameters} if parameters else {})}
        return await self.call("PUT", f"/namespaces/ns/policies/{name}/mappings", document, keys=keys)

    async def pages(self, path: str, name: str) -> list[Any]:
        """The entries of all pages of a list, two per page; `name` is the field with the entries."""
        entries: list[Any] = []
        token: str | None = ""
        while token is not None:
            query = f"{'&' if '?' in path else '?'}pageSize=2&pageToken={token}"
            page = (await self.call("GET", path + query)).document
            assert len(page[name]) <= 2
            entries += page[name]
            token = page["next-page-token"]
        return entries

    async def applicable(self, query: str = "") -> list[dict[str, Any]]:
        """The applicable policies."""
        answer = await self.call("GET", f"/applicable-policies{query}")
        assert answer.status == 200, answer
        found: list[dict[str, Any]] = answer.document["applicable-policies"]
        return found
