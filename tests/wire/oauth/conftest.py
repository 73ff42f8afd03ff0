from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .site import Site, opened_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with opened_site(tmp_path) as opened:
        yield opened
