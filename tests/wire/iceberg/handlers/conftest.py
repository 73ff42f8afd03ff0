"""Fixtures: a server without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.wire.iceberg.lake import Lake, opened_lake


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a namespace `ns` in the table bucket `lake`."""
    async with opened_lake(tmp_path, hosts=("catalog.example",)) as opened:
        yield opened
