"""A server to speak to, without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake, opened_lake

BASE = "/lakebed/v1"


@dataclass(frozen=True, slots=True)
class Admin:
    """The API of a server with a table bucket `lake`, a namespace `ns` and a table `t` in it."""

    lake: Lake

    async def call(self, method: str, path: str, document: object = None, *, keys: Keys | None = ROOT_KEYS) -> Answer:
        """Send a request; unsigned without keys."""
        body = b"" if document is None else json.dumps(document).encode()
        return await self.lake.send(method, BASE + path, body, keys=keys)

    async def submit(self, job: str = "verify-table", table: str = "t", **options: object) -> Answer:
        """Ask for a task."""
        order = {"job": job, "warehouse": "lake", "namespace": ["ns"], "table": table, "options": options}
        return await self.call("POST", "/tasks", order)

    async def lease(self, *kinds: str, worker: str = "w", lease_seconds: float = 60, limit: int = 1) -> Answer:
        """Take a task."""
        document = {"worker": worker, "kinds": kinds, "lease-seconds": lease_seconds, "limit": limit}
        return await self.call("POST", "/tasks/claim", document)


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with opened_lake(tmp_path) as lake:
        made = await lake.table()
        assert made.status == 200, made.body
        yield Admin(lake)
