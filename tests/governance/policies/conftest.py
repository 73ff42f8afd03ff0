"""Stores for what the schema does to policies."""

from __future__ import annotations

from tests.meta.conftest import address

__all__ = ["address"]
