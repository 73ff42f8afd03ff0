"""What tests of tiered logs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.meta.stores import open_migrated_file

from .tiered_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    made = World(tmp_path, meta)
    yield made
    await made.end()
    await meta.close()
