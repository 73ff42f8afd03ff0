"""Follows the other side at intervals, on nobody's word: in the name of the account that owns the table bucket."""

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
from .following import Following
from .model import Bridge, BridgeConfig, Bridged, ExternalTable
from .outcomes import Outcomes

AT_ONCE: Final = 8
"""How many other catalogs are asked at a time."""

_A_RUN: Final = 256
_CLAIM_SECONDS: Final = 120
"""How long a look may take before somebody else looks: longer than all its requests together."""

log = logging.getLogger("lakebed.bridges")


class Polling:
    """Looks at other catalogs when it is time."""

    def __init__(
        self, object_context: ObjectContext, entries: Entries, outcomes: Outcomes, following: Following
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._outcomes = outcomes
        self._following = following

    async def poll_due(self) -> int:
        """Look at every other side whose time has come; how many. For the server's clock to call.

        A look that fails is recorded and keeps no other from being made.
        """
        turn = asyncio.Semaphore(AT_ONCE)
        due = await self._f.meta.rows(rows.DUE, self._f.clock.now_ms(), _A_RUN)

        async def look(catalog_name: str, path: str, bridge: Bridge) -> bool:
            async with turn:
                return await self._look(catalog_name, Identifier(levels_of(path), bridge.name), bridge)

        looks = [look(row[-1], row[-2], rows.bridge_from(row)) for row in due]
        outcomes = await asyncio.gather(*looks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                log.error("a look at another catalog crashed; it is made again", exc_info=outcome)
        return sum(outcome is True for outcome in outcomes)

    async def _look(self, catalog_name: str, identifier: Identifier, bridge: Bridge) -> bool:
        if not await self._claim(bridge):
            return False
        try:
            found = await self._entries.find(self._f.meta, catalog_name, identifier)
        except NotFound:
            # Its namespace was dropped a moment ago, and the bridge with it.
            return False
        system = Caller(root_of(found.catalog.bucket.owner))
        bridged = Bridged(found.catalog, found.namespace, identifier, found.entry, bridge)
        try:
            external = await self._following.source(bridge).current()
            _check_reach(found.catalog, bridge.config, external)
            await self._following.follow(Mutation(system), bridged, bridge, external, is_new=False)
        except LakebedError as error:
            await self._outcomes.fail(system, bridged, bridge, error)
        return True

    async def _claim(self, bridge: Bridge) -> bool:
        """Whether this process looks: several may have found the bridge due.

        The end of a look sets when the next is due. One that a restart cut short is made again when the claim is over.
        """
        until_ms = self._f.clock.now_ms() + _CLAIM_SECONDS * 1000

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.CLAIM, until_ms, bridge.namespace_id, bridge.name, bridge.revision, bridge.due_ms)

        return bool(await self._f.meta.transact(work))


def _check_reach(catalog: Catalog, config: BridgeConfig, external: ExternalTable) -> None:
    """Refuse to read, on nobody's word, what lies outside the warehouse and the folder that was named.

    Who configured the bridge was asked whether he may read that folder, and about no other place. Raises AccessDenied.
    """
    address = parse_location(external.metadata_at)
    if catalog.holds(*address) or (config.folder and address.bucket == parse_location(config.folder).bucket):
        return
    raise AccessDenied(
        f"a bridge that is polled reads metadata files from its table bucket. metadata-location={external.metadata_at}"
    )
