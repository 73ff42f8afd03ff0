"""Notifications: another catalog tells an external one what became of its tables.

The sender's timestamps order what is told of a name, whatever order it arrives in: what is not newer than the last that
was admitted is refused, and a drop is remembered, so that an old message cannot bring a dropped table back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import AlreadyExists, InvalidInput
from lakebed.governance.rbac import OPERATIONS, catalog_securable
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..entries import Entries
from ..idempotency import Mutation
from ..identifiers import Identifier, path_of
from ..locations.directories import check_location
from ..model import Catalog, Entry
from ..namespaces import Namespaces
from ..tables.drops import Dropping
from ..tables.registration import TableRegistration

_LAST: Final = "SELECT told_at FROM notified_names WHERE warehouse = ? AND path = ? AND name = ?"
_ADMIT: Final = (
    "INSERT INTO notified_names (warehouse, path, name, told_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (warehouse, path, name) DO UPDATE SET told_at = excluded.told_at"
)


class NotificationKind(StrEnum):
    """What is told."""

    UNKNOWN = "UNKNOWN"
    """Nothing that anybody could act on. The contract has it, and takes it."""
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DROP = "DROP"
    VALIDATE = "VALIDATE"
    """Nothing yet: the sender asks whether it could."""


@dataclass(frozen=True, slots=True)
class Notification:
    """What another catalog tells of a table."""

    kind: NotificationKind
    told_at: int
    """By the sender's clock: in which order things happened there."""
    uuid: str
    metadata_at: str


class NotificationReceiver:
    """Takes notifications."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        namespaces: Namespaces,
        entries: Entries,
        registration: TableRegistration,
        dropping: Dropping,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._namespaces = namespaces
        self._entries = entries
        self._registration = registration
        self._dropping = dropping

    async def receive(self, mutation: Mutation, catalog_name: str, identifier: Identifier, told: Notification) -> None:
        """Do what follows from what is told.

        Raises InvalidInput in a catalog that is not external, and for metadata that cannot be its; AlreadyExists for
        what is not newer than what was told of the name before.
        """
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        # One set for all kinds, and on the whole catalog: who tells of tables decides what the catalog holds.
        await self._authorizer.check(
            mutation.caller,
            catalog,
            Action.SEND_NOTIFICATION,
            privileges=OPERATIONS["sendNotification"].target,
            securable=catalog_securable(catalog.id),
        )
        if not catalog.is_external:
            raise InvalidInput(
                f"the catalog moves the pointers of its tables itself: only external ones are told of theirs."
                f" catalog={catalog_name}",
                argument="catalog",
            )
        if told.kind is NotificationKind.UNKNOWN:
            return
        if told.kind is NotificationKind.DROP:
            await self._drop(mutation, catalog, identifier, told)
            return
        check_location(catalog, told.metadata_at)
        if told.kind is not NotificationKind.VALIDATE:
            await self._follow(mutation, catalog, identifier, told)

    async def _follow(self, mutation: Mutation, catalog: Catalog, identifier: Identifier, told: Notification) -> None:
        # Before anything is read or made for it; and once more with the change, which another may have overtaken.
        await _check_newer(self._f.meta, catalog, identifier, told)
        await self._namespaces.ensure(mutation.caller, catalog.name, identifier.namespace)
        found = await self._entries.find(self._f.meta, catalog.name, identifier)

        async def admit(tx: Transaction, entry: Entry) -> None:
            await _admit(tx, catalog, identifier, told)

        await self._registration.adopt_table(mutation, found, identifier, told.metadata_at, told.uuid, also=admit)

    async def _drop(self, mutation: Mutation, catalog: Catalog, identifier: Identifier, told: Notification) -> None:
        async def admit(tx: Transaction) -> None:
            await _admit(tx, catalog, identifier, told)

        await self._dropping.forget(mutation, catalog.name, identifier, also=admit)


async def _admit(tx: Transaction, catalog: Catalog, identifier: Identifier, told: Notification) -> None:
    await _check_newer(tx, catalog, identifier, told)
    await tx.run(_ADMIT, catalog.id, path_of(identifier.namespace), identifier.name, told.told_at)


async def _check_newer(reader: Reader, catalog: Catalog, identifier: Identifier, told: Notification) -> None:
    row = await reader.row(_LAST, catalog.id, path_of(identifier.namespace), identifier.name)
    if row is not None and told.told_at <= row[0]:
        raise AlreadyExists(
            f"a newer notification was sent for the table: {identifier}. timestamp={told.told_at} last={row[0]}"
        )
