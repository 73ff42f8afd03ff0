"""Notifications: another catalog reports changes of its tables to an external catalog of this server.

The sender's timestamps order the notifications of a name: one that is not newer than the last accepted one is refused.
A drop is remembered too, so that a late notification cannot restore a dropped table.
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
_ACCEPT: Final = (
    "INSERT INTO notified_names (warehouse, path, name, told_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (warehouse, path, name) DO UPDATE SET told_at = excluded.told_at"
)


class NotificationKind(StrEnum):
    """The kind of a notification, as Polaris defines it."""

    UNKNOWN = "UNKNOWN"
    """Accepted without effect."""
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DROP = "DROP"
    VALIDATE = "VALIDATE"
    """A check that changes nothing: whether the sender could create the table."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A change of a table in another catalog."""

    kind: NotificationKind
    timestamp: int
    """By the sender's clock: orders the notifications of a name."""
    uuid: str
    metadata_at: str


class NotificationReceiver:
    """Applies notifications."""

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

    async def receive(
        self, mutation: Mutation, catalog_name: str, identifier: Identifier, notification: Notification
    ) -> None:
        """Apply a notification.

        Raises InvalidInput for a catalog that is not external, and for metadata outside its locations; AlreadyExists
        if the notification is not newer than the last one of the name.
        """
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        # All kinds require one set of privileges, on the whole catalog: the sender decides what the catalog contains.
        await self._authorizer.check(
            mutation.caller,
            catalog,
            Action.SEND_NOTIFICATION,
            privileges=OPERATIONS["sendNotification"].target,
            securable=catalog_securable(catalog.id),
        )
        if not catalog.is_external:
            raise InvalidInput(
                f"only external catalogs accept notifications; this one is internal. catalog={catalog_name}",
                argument="catalog",
            )
        if notification.kind is NotificationKind.UNKNOWN:
            return
        if notification.kind is NotificationKind.DROP:
            await self._drop(mutation, catalog, identifier, notification)
            return
        check_location(catalog, notification.metadata_at)
        if notification.kind is not NotificationKind.VALIDATE:
            await self._apply(mutation, catalog, identifier, notification)

    async def _apply(
        self, mutation: Mutation, catalog: Catalog, identifier: Identifier, notification: Notification
    ) -> None:
        # Before anything is read or created; checked again in the transaction, which another may have overtaken.
        await _check_newer(self._f.meta, catalog, identifier, notification)
        await self._namespaces.ensure(mutation.caller, catalog.name, identifier.namespace)
        found = await self._entries.find(self._f.meta, catalog.name, identifier)

        async def accept(tx: Transaction, entry: Entry) -> None:
            await _accept(tx, catalog, identifier, notification)

        await self._registration.adopt_table(
            mutation, found, identifier, notification.metadata_at, notification.uuid, also=accept
        )

    async def _drop(
        self, mutation: Mutation, catalog: Catalog, identifier: Identifier, notification: Notification
    ) -> None:
        async def accept(tx: Transaction) -> None:
            await _accept(tx, catalog, identifier, notification)

        await self._dropping.forget(mutation, catalog.name, identifier, also=accept)


async def _accept(tx: Transaction, catalog: Catalog, identifier: Identifier, notification: Notification) -> None:
    await _check_newer(tx, catalog, identifier, notification)
    await tx.run(_ACCEPT, catalog.id, path_of(identifier.namespace), identifier.name, notification.timestamp)


async def _check_newer(reader: Reader, catalog: Catalog, identifier: Identifier, notification: Notification) -> None:
    row = await reader.row(_LAST, catalog.id, path_of(identifier.namespace), identifier.name)
    if row is not None and notification.timestamp <= row[0]:
        raise AlreadyExists(
            "a newer notification of the table was accepted before."
            f" table={identifier} timestamp={notification.timestamp} last={row[0]}"
        )
