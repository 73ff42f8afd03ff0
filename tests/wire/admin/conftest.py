"""Fixtures: a server without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake, opened_lake

BASE = "/lakebed/v1"


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin API of a server with a table `t` in the namespace `ns` of the table bucket `lake`."""

    lake: Lake

    async def call(self, method: str, path: str, document: object = None, *, keys: Keys | None = ROOT_KEYS) -> Answer:
        """Send a request; unsigned without keys."""
        body = b"" if document is None else json.dumps(document).encode()
        return await self.lake.send(method, BASE + path, body, keys=keys)

    async def submit(self, job: str = "verify-table", table: str = "t", **options: object) -> Answer:
        """Submit a task."""
        spec = {"job": job, "warehouse": "lake", "namespace": ["ns"], "table": table, "options": options}
        return await self.call("POST", "/tasks", spec)

    async def lease(self, *kinds: str, worker: str = "w", lease_seconds: float = 60, limit: int = 1) -> Answer:
        """Lease tasks."""
        document = {"worker": worker, "kinds": kinds, "lease-seconds": lease_seconds, "limit": limit}
        return await self.call("POST", "/tasks/claim", document)

    async def pages(self, path: str, name: str, size: int = 2) -> list[Any]:
        """The entries of all pages of a list; `name` is the field with the entries."""
        entries: list[Any] = []
        token = ""
        while True:
            query = f"{'&' if '?' in path else '?'}page-size={size}&page-token={token}"
            answer = await self.call("GET", path + query)
            assert answer.status == 200, answer.body
            page = answer.document
            assert len(page[name]) <= size
            entries += page[name]
            token = page.get("next-page-token", "")
            if not token:
                return entries


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with opened_lake(tmp_path) as lake:
        created = await lake.table()
        assert created.status == 200, created.body
        yield Admin(lake)
