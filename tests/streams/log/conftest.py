"""Fixtures for tests of logs with remote storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.meta.stores import open_migrated_file

from .log_cluster import LogCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LogCluster]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    made = LogCluster(tmp_path, meta)
    yield made
    await made.end()
    await meta.close()
