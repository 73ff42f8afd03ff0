"""Restrictions on every pair of a metadata store and an object store."""

from __future__ import annotations

from tests.catalog.conftest import catalog, clock, light_catalog, light_store, objects_dsn, open_object_store

__all__ = ["catalog", "clock", "light_catalog", "light_store", "objects_dsn", "open_object_store"]
