"""A server to speak to, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.catalog.harness import VIEW_VERSION
from tests.wire.iceberg.lake import SCHEMA, opened_lake

from .office import Office


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """A server with a table bucket `lake`, in it a namespace `ns`, in that a table `t` and a view `v`."""
    async with opened_lake(tmp_path) as lake:
        assert (await lake.table()).status == 200
        view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION}
        assert (await lake.call("POST", "/lake/namespaces/ns/views", view)).status == 200
        yield Office(lake)
