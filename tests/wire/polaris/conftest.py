"""Fixtures: a server without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.wire.iceberg.lake import SCHEMA, opened_lake

from .policy_lake import PolicyLake


@pytest.fixture
async def policies(tmp_path: Path) -> AsyncIterator[PolicyLake]:
    """A server with a table `t` and a view `v` in the namespace `ns` of the table bucket `lake`."""
    async with opened_lake(tmp_path) as lake:
        assert (await lake.table()).status == 200
        view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
        assert (await lake.call("POST", "/lake/namespaces/ns/views", view)).status == 200
        yield PolicyLake(lake)
