from __future__ import annotations

from tests.fixtures.versitygw import versitygw

__all__ = ["versitygw"]
