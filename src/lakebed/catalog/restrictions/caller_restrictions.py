"""Who is restricted on which table, by the policies that hold for it and the roles that the caller has."""

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
"""Where the filtered, masked copies of a warehouse's tables are. For who runs tasks, and for nobody else."""


def is_copies_namespace(levels: Levels) -> bool:
    """Whether a namespace is that of the copies, or inside it."""
    return bool(levels) and levels[0] == COPIES_NAMESPACE


class Restrictions:
    """Says what callers may see of tables. Nothing is kept: a change of policies or roles holds for the next request.

    Root is not restricted: it looks after the policies, and the worker that makes the copies is root's. Root with a
    token for some roles has what these have, and is asked about as everybody.
    """

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def of(self, principal: Principal, catalog: Catalog, levels: Levels, entry: Entry) -> Restriction | None:
        """What the caller sees of a table; None if that is all of it. No statement where nothing restricts anybody.

        Whether something does the warehouse tells, which has been read with the entry.
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
        return restriction_for(policies, await self._person(principal)) if policies else None

    async def refuse(self, principal: Principal, catalog: Catalog, levels: Levels, entry: Entry, what: str) -> None:
        """Return if the caller sees the table whole. Raises AccessDenied that says that `what` is for those alone."""
        restriction = await self.of(principal, catalog, levels, entry)
        if restriction is not None:
            raise restricted_denial(levels, entry, what)

    async def _person(self, principal: Principal) -> AudiencePrincipal:
        calling = principal.calling_roles
        found = await self._reader.rows(ASSIGNABLE_ROLES, principal.name)
        held = frozenset(str(name) for name, is_held in found if is_held)
        if calling is None:
            return AudiencePrincipal(principal.name, held, held)
        had = held
        if calling.by_provider:
            had |= calling.names & {str(name) for name, _ in found}
        return AudiencePrincipal(principal.name, had | calling.names, had & calling.names)


def restricted_denial(levels: Levels, entry: Entry, what: str) -> AccessDenied:
    """The error for what is only for those who see a table whole."""
    table = ".".join((*levels, entry.name))
    return AccessDenied(f"a policy restricts what the caller sees of the table: {what}. table={table}")
