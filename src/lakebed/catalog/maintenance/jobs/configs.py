"""Reads and sets maintenance configurations, of tables and of table buckets."""

from __future__ import annotations

from typing import Final

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.entries import Entries, no_such_entry
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.external.checks import check_served
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import NotFound
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from . import rows
from .config import DEFAULT_CONFIG, ConfigSource, EffectiveConfig, MaintenanceConfig, check_config

__all__ = ["MAINTENANCE_JOBS", "MaintenanceConfigs"]

MAINTENANCE_JOBS: Final = "maintenance jobs of the server; attach a policy instead"
"""A feature that catalogs over external storage do not have."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MaintenanceConfig).decode


class MaintenanceConfigs:
    """Stored maintenance configurations."""

    def __init__(
        self, object_context: ObjectContext, authorizer: CatalogAuthorizer, catalogs: CatalogService, entries: Entries
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries

    async def effective(self, reader: Reader, entry_id: str) -> EffectiveConfig:
        """The effective configuration of a table: its own, its table bucket's or the built-in one. Raises NotFound."""
        row = await reader.row(rows.EFFECTIVE, entry_id)
        if row is None:
            raise NotFound(f"the table no longer exists. id={entry_id}")
        own, default = row
        if own is not None:
            return EffectiveConfig(_decode(own), ConfigSource.TABLE_OVERRIDE)
        if default is not None:
            return EffectiveConfig(_decode(default), ConfigSource.TABLE_BUCKET_DEFAULT)
        return EffectiveConfig(DEFAULT_CONFIG, ConfigSource.DEFAULT)

    async def get(self, caller: Caller, catalog_name: str, identifier: Identifier) -> EffectiveConfig:
        """The effective configuration of a table, for a caller."""
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_MAINTENANCE)
        return await self.effective(self._f.meta, known.entry.id)

    async def put(
        self, caller: Caller, catalog_name: str, identifier: Identifier, config: MaintenanceConfig | None
    ) -> EffectiveConfig:
        """Set a table's own configuration, or with None remove it. Raises InvalidInput."""
        f = self._f
        if config is not None:
            check_config(config)
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.PUT_MAINTENANCE)
        check_served(known.catalog, MAINTENANCE_JOBS)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> EffectiveConfig:
            entry = (await self._entries.find(tx, catalog_name, identifier)).live
            if entry is None or entry.kind is not EntryKind.TABLE:
                raise no_such_entry(identifier, EntryKind.TABLE)
            if config is None:
                await tx.run(rows.REMOVE_CONFIG, entry.id)
            else:
                await tx.run(rows.SET_CONFIG, entry.id, _in_background(config), _encode(config))
            effective = await self.effective(tx, entry.id)
            await append_catalog_event(
                f.outbox,
                tx,
                "TableMaintenanceConfigured",
                caller,
                now_ms,
                catalog_name,
                identifier.namespace,
                entry,
                facts={"source": effective.source},
            )
            return effective

        return await f.meta.transact(work)

    async def get_default(self, caller: Caller, catalog_name: str) -> EffectiveConfig:
        """The default configuration of a table bucket's tables."""
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.GET_MAINTENANCE)
        row = await self._f.meta.row(rows.DEFAULT_OF, catalog.id)
        if row is None:
            return EffectiveConfig(DEFAULT_CONFIG, ConfigSource.DEFAULT)
        return EffectiveConfig(_decode(row[0]), ConfigSource.TABLE_BUCKET_DEFAULT)

    async def put_default(self, caller: Caller, catalog_name: str, config: MaintenanceConfig | None) -> EffectiveConfig:
        """Set the default of a table bucket, or with None remove it. Raises InvalidInput."""
        f = self._f
        if config is not None:
            check_config(config)
        found = await self._catalogs.find(f.meta, catalog_name)
        await self._authorizer.check(caller, found, Action.PUT_MAINTENANCE)
        check_served(found, MAINTENANCE_JOBS)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            catalog = await self._catalogs.find(tx, catalog_name)
            if config is None:
                await tx.run(rows.REMOVE_DEFAULT, catalog.id)
            else:
                await tx.run(rows.SET_DEFAULT, catalog.id, _in_background(config), _encode(config))
            await append_catalog_event(f.outbox, tx, "TableBucketMaintenanceConfigured", caller, now_ms, catalog_name)

        await f.meta.transact(work)
        if config is None:
            return EffectiveConfig(DEFAULT_CONFIG, ConfigSource.DEFAULT)
        return EffectiveConfig(config, ConfigSource.TABLE_BUCKET_DEFAULT)


def _in_background(config: MaintenanceConfig) -> int:
    return int(config.background_enabled and not config.worker_paused)
