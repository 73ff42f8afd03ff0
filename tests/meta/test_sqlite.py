from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.meta import MetaContract


class TestSqliteStore(MetaContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path / 'meta.db'}"
