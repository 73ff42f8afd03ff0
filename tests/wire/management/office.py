"""A lake, spoken to about users, roles and grants."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake

BASE = "/api/management/v1"
GRANTS = "/catalogs/lake/catalog-roles/reader/grants"


@dataclass(frozen=True, slots=True)
class Office:
    """The management API of a server with a table bucket `lake`, in it a namespace `ns`, in that a table `t`."""

    lake: Lake

    async def call(self, method: str, path: str, document: object = None, *, keys: Keys | None = ROOT_KEYS) -> Answer:
        """Send a request; unsigned without keys."""
        body = b"" if document is None else json.dumps(document).encode()
        return await self.lake.send(method, BASE + path, body, keys=keys)

    async def done(self, method: str, path: str, document: object = None, *, keys: Keys = ROOT_KEYS) -> Any:
        """Send a request that succeeds; what it was answered."""
        answer = await self.call(method, path, document, keys=keys)
        assert answer.status < 300, (method, path, answer)
        return answer.document if answer.body else None

    async def principal(self, name: str, **properties: str) -> Any:
        """Make a user."""
        return await self.done("POST", "/principals", {"principal": {"name": name, "properties": properties}})

    async def role(self, name: str) -> Any:
        """Make a principal role."""
        return await self.done("POST", "/principal-roles", {"principalRole": {"name": name}})

    async def catalog_role(self, name: str) -> Any:
        """Make a role of `lake`."""
        return await self.done("POST", "/catalogs/lake/catalog-roles", {"catalogRole": {"name": name}})

    async def give(self, user: str, role: str) -> None:
        """Give a principal role to a user."""
        await self.done("PUT", f"/principals/{user}/principal-roles", {"principalRole": {"name": role}})

    async def user_with(self, name: str, role: str) -> Keys:
        """A user with a principal role, and its S3 keys."""
        await self.principal(name)
        await self.give(name, role)
        made = await self.lake.access_keys.create(name)
        return Keys(made.key.id, made.secret.reveal())

    async def user_with_grant(self, name: str, **grant: Any) -> Keys:
        """A user who holds one privilege by roles of its own name, and its S3 keys."""
        await self.role(name)
        await self.catalog_role(name)
        await self.done("PUT", f"/catalogs/lake/catalog-roles/{name}/grants", {"grant": grant})
        await self.done("PUT", f"/principal-roles/{name}/catalog-roles/lake", {"catalogRole": {"name": name}})
        return await self.user_with(name, name)
