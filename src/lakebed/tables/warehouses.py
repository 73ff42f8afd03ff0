"""Table buckets: ordinary buckets that are enabled for tables, one warehouse each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.access import ResourceRules
from lakebed.core.errors import InvalidInput, NoSuchWarehouse
from lakebed.governance.rbac import SERVICE, Privilege
from lakebed.governance.rbac.bootstrap import establish_catalog
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.bucket import encode_settings
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller
from lakebed.objects.rows import UPDATE_BUCKET_SETTINGS

from . import rows
from .events import tell
from .gate import Action, Gate
from .model import Properties, Warehouse, pack_properties
from .properties import changed_properties, check_properties
from .rows import warehouse_from

UNDROP_WINDOW: Final = "undrop-window-seconds"
"""The property that says how long dropped tables can be restored; 0 or none: not at all."""

MAX_UNDROP_SECONDS: Final = 365 * 86_400


@dataclass(frozen=True, slots=True)
class WarehousePage:
    """One page of warehouses."""

    warehouses: list[Warehouse]
    truncated: bool


class Warehouses:
    """The use cases of table buckets."""

    def __init__(self, facilities: Facilities, gate: Gate) -> None:
        self._f = facilities
        self._gate = gate

    async def find(self, reader: Reader, name: str) -> Warehouse:
        """The warehouse of that name, whoever asks. Raises NoSuchWarehouse."""
        row = await reader.row(rows.WAREHOUSE, name)
        if row is None:
            raise NoSuchWarehouse(f"no table bucket of that name; create the bucket and enable it. warehouse={name}")
        return warehouse_from(row)

    async def enable(self, caller: Caller, name: str) -> Warehouse:
        """Make a bucket a table bucket. Idempotent. Raises NoSuchBucket; InvalidInput if its objects are to expire."""
        f = self._f
        now_ms = f.clock.now_ms()
        bucket = await f.bucket(f.meta, name)
        await self._gate.check(caller, Warehouse(bucket, 0, b""), Action.CREATE_TABLE_BUCKET)

        async def work(tx: Transaction) -> Warehouse:
            bucket = await f.bucket(tx, name)
            if not bucket.holds_tables:
                lifecycle = bucket.settings.lifecycle
                if lifecycle is not None and lifecycle.expires_objects:
                    # They would be kept and never run: what a file's age says of its use only its table knows.
                    raise InvalidInput(
                        f"the bucket has lifecycle rules that expire objects, and tables need theirs: remove the rules"
                        f" first. bucket={name}",
                        argument="lifecycle",
                    )
                settings = msgspec.structs.replace(bucket.settings, tables=True)
                await tx.run(UPDATE_BUCKET_SETTINGS, encode_settings(settings), bucket.id)
            if await tx.run(rows.ENABLE, bucket.id, now_ms, pack_properties({})):
                await establish_catalog(tx, f.outbox, bucket.id, name, caller.principal, now_ms)
                await tell(f.outbox, tx, "TableBucketEnabled", caller, now_ms, name)
            return await self.find(tx, name)

        return await f.meta.transact(work)

    async def get(self, caller: Caller, name: str) -> Warehouse:
        """The warehouse, if the caller may see it."""
        warehouse = await self.find(self._f.meta, name)
        await self._gate.check(caller, warehouse, Action.GET_TABLE_BUCKET)
        return warehouse

    async def enter(self, caller: Caller, name: str) -> Warehouse:
        """The same for clients that ask where it is before all else: who has any role of the catalog may know that."""
        warehouse = await self.find(self._f.meta, name)
        await self._gate.check(caller, warehouse, Action.GET_TABLE_BUCKET, privileges=(Privilege.CATALOG_ROLE_USAGE,))
        return warehouse

    async def list(self, caller: Caller, *, after: str, limit: int) -> WarehousePage:
        """The table buckets of the caller's account, by name."""
        account = caller.principal.account
        await self._f.ask(
            caller,
            ResourceRules(owner=account),
            Action.LIST_TABLE_BUCKETS,
            f"arn:aws:s3tables:{self._f.region}:{account}:bucket/*",
            securable=SERVICE,
            privileges=(Privilege.CATALOG_LIST,),
        )
        found = await self._f.meta.rows(rows.WAREHOUSES_AFTER, account, after, limit + 1)
        return WarehousePage([warehouse_from(row) for row in found[:limit]], len(found) > limit)

    async def set_properties(
        self, caller: Caller, name: str, *, updates: Mapping[str, str], removals: Sequence[str]
    ) -> Warehouse:
        """Change what is set on it. Raises InvalidInput."""
        f = self._f
        now_ms = f.clock.now_ms()
        await self._gate.check(caller, await self.find(f.meta, name), Action.CREATE_TABLE_BUCKET)

        async def work(tx: Transaction) -> Warehouse:
            warehouse = await self.find(tx, name)
            properties, _ = changed_properties(warehouse.properties, updates, removals)
            _check_warehouse_properties(properties)
            await tx.run(rows.SET_WAREHOUSE_PROPERTIES, pack_properties(properties), warehouse.bucket.id)
            await tell(f.outbox, tx, "TableBucketConfigured", caller, now_ms, name)
            return warehouse._replace(packed_properties=pack_properties(properties))

        return await f.meta.transact(work)


def undrop_window_ms(warehouse: Warehouse) -> int:
    """How long dropped tables of this warehouse can be restored."""
    return int(warehouse.properties.get(UNDROP_WINDOW, "0")) * 1000


def _check_warehouse_properties(properties: Properties) -> None:
    check_properties(properties)
    window = properties.get(UNDROP_WINDOW, "0")
    if not (window.isascii() and window.isdigit() and int(window) <= MAX_UNDROP_SECONDS):
        raise InvalidInput(
            f"{UNDROP_WINDOW} is a whole number of seconds up to {MAX_UNDROP_SECONDS}", argument=UNDROP_WINDOW
        )
