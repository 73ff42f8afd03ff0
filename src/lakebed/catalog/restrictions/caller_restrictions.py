"""Resolves the restriction of a caller on a table, by the policies of the table and the caller's roles."""

from __future__ import annotations

from typing import Final

from lakebed.core.access import Principal
from lakebed.core.errors import AccessDenied
from lakebed.governance.policies import RESTRICTION_TYPES, AudiencePrincipal, Restriction, restriction_for
from lakebed.governance.rbac.rows import ASSIGNABLE_ROLES
from lakebed.meta.seam import Reader

from ..identifiers import Levels
from ..model import Catalog, Entry, EntryKind
from ..policies.applicable import applicable_to

COPIES_NAMESPACE: Final = "__lakebed_restricted__"
"""The namespace of a catalog's restricted copies. Only task workers have access to it."""


def is_copies_namespace(levels: Levels) -> bool:
    """Whether a namespace is the one of restricted copies, or inside it."""
    return bool(levels) and levels[0] == COPIES_NAMESPACE


class Restrictions:
    """Resolves restrictions. Nothing is cached: a change of policies or roles applies from the next request on.

    Root is not restricted: it manages the policies, and the worker that writes copies runs as root. Root with a token
    for some roles is treated like any other principal.
    """

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def of(self, principal: Principal, catalog: Catalog, levels: Levels, entry: Entry) -> Restriction | None:
        """The restriction of the caller on a table; None if unrestricted.

        Runs no statement in catalogs without restrictions: `catalog.restricts` was read with the entry.
        """
        if entry.kind is not EntryKind.TABLE or is_copies_namespace(levels):
            return None
        roles = principal.calling_roles
        if principal.is_root and roles is None:
            return None
        if not catalog.restricts:
            return None
        applicable = await applicable_to(self._reader, catalog.id, levels, entry)
        policies = [one.policy for one in applicable if one.policy.type in RESTRICTION_TYPES]
        return restriction_for(policies, await self._audience_principal(principal)) if policies else None

    async def check_unrestricted(
        self, principal: Principal, catalog: Catalog, levels: Levels, entry: Entry, reason: str
    ) -> None:
        """Return if the caller is not restricted on the table. Raises AccessDenied with `reason`."""
        restriction = await self.of(principal, catalog, levels, entry)
        if restriction is not None:
            raise restricted_denial(levels, entry, reason)

    async def _audience_principal(self, principal: Principal) -> AudiencePrincipal:
        calling = principal.calling_roles
        found = await self._reader.rows(ASSIGNABLE_ROLES, principal.name)
        held = frozenset(str(name) for name, is_held in found if is_held)
        if calling is None:
            return AudiencePrincipal(principal.name, held, held)
        if calling.by_provider:
            held |= calling.names & {str(name) for name, _ in found}
        return AudiencePrincipal(principal.name, held | calling.names, held & calling.names)


def restricted_denial(levels: Levels, entry: Entry, reason: str) -> AccessDenied:
    """The error for operations that require unrestricted access to a table."""
    table = ".".join((*levels, entry.name))
    return AccessDenied(f"a policy restricts the caller's access to the table: {reason}. table={table}")
