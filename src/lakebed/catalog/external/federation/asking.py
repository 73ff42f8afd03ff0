"""Who may ask the catalog behind this one for what: the one gate, asked before anything is passed on."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, Privileges
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import AccessDenied
from lakebed.governance.rbac import GrantKind, entry_securable
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from .connections import Backed
from .facades import find_facade
from .model import KeysFor

_UNKNOWN: Final = "remote"
"""In resources of policies, the id of a table that nothing is known of here: patterns match it as any other."""


class Rights(IntEnum):
    """What a caller may do with a table's data."""

    NONE = 0
    READ = 1
    WRITE = 2


class Asking:
    """Asks the gate about things in catalogs behind this one."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer) -> None:
        self._meta = meta
        self._authorizer = authorizer

    async def check(
        self,
        caller: Caller,
        backed: Backed,
        action: Action,
        identifier: Identifier,
        kind: EntryKind,
        *,
        privileges: Privileges | None = None,
    ) -> None:
        """Return if the caller may do `action` to a table or view, or with its name. Raises AccessDenied."""
        makes = action is Action.CREATE_TABLE
        facade = None if makes else await find_facade(self._meta, backed.catalog_id, identifier, kind)
        await self._authorizer.check(
            caller,
            backed.catalog,
            action,
            namespace=identifier.namespace,
            name=identifier.name,
            entry_id="" if makes else facade or _UNKNOWN,
            kind=GrantKind(kind),
            privileges=privileges,
            securable=None if facade is None else entry_securable(backed.catalog_id, identifier.namespace, facade),
        )

    async def rights(self, caller: Caller, backed: Backed, table: Identifier) -> Rights:
        """What the caller may do with a table's data."""
        for action, right in ((Action.PUT_TABLE_DATA, Rights.WRITE), (Action.GET_TABLE_DATA, Rights.READ)):
            try:
                await self.check(caller, backed, action, table, EntryKind.TABLE)
            except AccessDenied:
                continue
            return right
        return Rights.NONE


def may_have_keys(backed: Backed, rights: Rights) -> bool:
    """Whether a caller with these rights is given keys that the other catalog hands out. Pure."""
    needed = {KeysFor.WRITERS: Rights.WRITE, KeysFor.READERS: Rights.READ}.get(backed.connection.config.keys_for)
    return needed is not None and rights >= needed
