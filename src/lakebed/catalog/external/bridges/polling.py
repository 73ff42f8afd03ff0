"""Syncs polled bridges at intervals, as the account that owns the table bucket."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lakebed.catalog.entries import Entries
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier, levels_of
from lakebed.catalog.model import Catalog
from lakebed.catalog.tables.files import parse_location
from lakebed.core.access import root_of
from lakebed.core.errors import AccessDenied, LakebedError, NotFound
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from . import rows
from .model import Bridge, BridgeConfig, BridgedTable, ExternalTable
from .sync import TableSync

MAX_CONCURRENT: Final = 8

_BATCH: Final = 256
_CLAIM_SECONDS: Final = 120
"""The lease of a poll: longer than all its requests together."""

log = logging.getLogger("lakebed.bridges")


class BridgePolling:
    """Polls external catalogs when they are due."""

    def __init__(self, object_context: ObjectContext, entries: Entries, table_sync: TableSync) -> None:
        self._f = object_context
        self._entries = entries
        self._table_sync = table_sync

    async def poll_due(self) -> int:
        """Poll every bridge that is due; the number polled. Called by the server's scheduler.

        A poll that fails is recorded and does not stop the others.
        """
        slots = asyncio.Semaphore(MAX_CONCURRENT)
        due = await self._f.meta.rows(rows.DUE, self._f.clock.now_ms(), _BATCH)

        async def poll(catalog_name: str, path: str, bridge: Bridge) -> bool:
            async with slots:
                return await self._poll(catalog_name, Identifier(levels_of(path), bridge.name), bridge)

        polls = [poll(row[-1], row[-2], rows.bridge_from(row)) for row in due]
        results = await asyncio.gather(*polls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                log.error("bridge poll crashed, repeating it after its lease", exc_info=result)
        return sum(result is True for result in results)

    async def _poll(self, catalog_name: str, identifier: Identifier, bridge: Bridge) -> bool:
        if not await self._claim(bridge):
            return False
        try:
            found = await self._entries.find(self._f.meta, catalog_name, identifier)
        except NotFound:
            # The namespace was dropped meanwhile, and the bridge with it.
            return False
        system = Caller(root_of(found.catalog.bucket.owner))
        bridged = BridgedTable(found.catalog, found.namespace, identifier, found.entry, bridge)
        try:
            external = await self._table_sync.source(bridged, bridge).current()
            _check_reach(found.catalog, bridge.config, external)
            await self._table_sync.sync(Mutation(system), bridged, bridge, external, is_new=False)
        except LakebedError as error:
            await self._table_sync.fail(system, bridged, bridge, error)
        return True

    async def _claim(self, bridge: Bridge) -> bool:
        """Whether this process polls: several may have found the bridge due.

        The end of a poll sets when the next is due. A poll cut short by a restart is repeated when its lease expires.
        """
        until_ms = self._f.clock.now_ms() + _CLAIM_SECONDS * 1000

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.CLAIM, until_ms, bridge.namespace_id, bridge.name, bridge.revision, bridge.due_ms)

        return bool(await self._f.meta.transact(work))


def _check_reach(catalog: Catalog, config: BridgeConfig, external: ExternalTable) -> None:
    """Return if the metadata file is in the catalog or the configured folder. Raises AccessDenied.

    A poll has no caller to authorize: configuring the bridge checked permission to read that folder only.
    """
    address = parse_location(external.metadata_at)
    if catalog.holds(*address) or (config.folder and address.bucket == parse_location(config.folder).bucket):
        return
    raise AccessDenied(
        f"a polled bridge reads metadata files from its table bucket only. metadata-location={external.metadata_at}"
    )
