"""Fixtures of streams, for calls on them."""

from __future__ import annotations

from tests.streams.conftest import clock, light_world

__all__ = ["clock", "light_world"]
