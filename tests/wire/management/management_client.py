"""A client of the management API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake

BASE = "/api/management/v1"
GRANTS = "/catalogs/lake/catalog-roles/reader/grants"


@dataclass(frozen=True, slots=True)
class ManagementClient:
    """The management API of a server with a table `t` in the namespace `ns` of the table bucket `lake`."""

    lake: Lake

    async def call(self, method: str, path: str, document: object = None, *, keys: Keys | None = ROOT_KEYS) -> Answer:
        """Send a request; unsigned without keys."""
        body = b"" if document is None else json.dumps(document).encode()
        return await self.lake.send(method, BASE + path, body, keys=keys)

    async def call_ok(self, method: str, path: str, document: object = None, *, keys: Keys = ROOT_KEYS) -> Any:
        """Send a request that must succeed, and return the response document."""
        answer = await self.call(method, path, document, keys=keys)
        assert answer.status < 300, (method, path, answer)
        return answer.document if answer.body else None

    async def principal(self, name: str, **properties: str) -> Any:
        """Create a principal."""
        return await self.call_ok("POST", "/principals", {"principal": {"name": name, "properties": properties}})

    async def role(self, name: str) -> Any:
        """Create a principal role."""
        return await self.call_ok("POST", "/principal-roles", {"principalRole": {"name": name}})

    async def catalog_role(self, name: str) -> Any:
        """Create a catalog role of `lake`."""
        return await self.call_ok("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": name}})

    async def assign(self, principal: str, role: str) -> None:
        """Assign a principal role to a principal."""
        await self.call_ok("PUT", f"/principals/{principal}/principal-roles", {"principalRole": {"name": role}})

    async def principal_with_role(self, name: str, role: str) -> Keys:
        """Create a principal with a principal role, and return its S3 keys."""
        await self.principal(name)
        await self.assign(name, role)
        created = await self.lake.access_keys.create(name)
        return Keys(created.key.id, created.secret.reveal())

    async def principal_with_grant(self, name: str, **grant: Any) -> Keys:
        """Create a principal with one privilege, by roles of the same name, and return its S3 keys."""
        await self.role(name)
        await self.catalog_role(name)
        await self.call_ok("PUT", f"/catalogs/lake/catalog-roles/{name}/grants", {"grant": grant})
        await self.call_ok("PUT", f"/principal-roles/{name}/catalog-roles/lake", {"catalogRole": {"name": name}})
        return await self.principal_with_role(name, name)
