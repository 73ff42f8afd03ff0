"""Metadata stores for tests of policy rows."""

from __future__ import annotations

from tests.meta.conftest import address

__all__ = ["address"]
