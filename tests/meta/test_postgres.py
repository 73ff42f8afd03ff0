from __future__ import annotations

import pytest

from tests.contracts.meta import MetaContract

pytestmark = pytest.mark.integration


class TestPostgresStore(MetaContract):
    @pytest.fixture
    def address(self, postgres_dsn: str) -> str:
        return postgres_dsn
