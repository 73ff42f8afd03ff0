"""What a caller holds by the roles that a provider's token activates.

Roles that users are given here are activated as in any token. Federated ones, of which a provider says who has them,
are activated by being named: nobody is given them here, so that nobody has to take them away here either.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import Reader

from ..rbac import GrantSet, Privilege
from ..rbac.rows import HELD_BY_PRINCIPAL
from ..rbac.securables import SERVICE_KEY
from ..remembered import Remembered
from ..tokens.scopes import RoleScope

LATEST_CHANGE: Final = "(SELECT number FROM role_changes)"
"""A column of the statement that finds who calls: the number of the latest change of roles and grants."""

_HELD_BY_FEDERATED: Final = (
    "SELECT r.name, g.securable, g.privilege FROM principal_roles r"  # noqa: S608 - constants only
    " JOIN catalog_role_members a ON a.principal_role = r.id"
    " JOIN grants g ON g.role = a.catalog_role WHERE r.federated = 1"
    f" UNION ALL SELECT r.name, '{SERVICE_KEY}', s.privilege FROM principal_roles r"
    " JOIN service_grants s ON s.role = r.id WHERE r.federated = 1"
    f" UNION ALL SELECT r.name, 'catalog ' || c.catalog, {Privilege.CATALOG_ROLE_USAGE:d} FROM principal_roles r"
    " JOIN catalog_role_members a ON a.principal_role = r.id JOIN catalog_roles c ON c.id = a.catalog_role"
    " WHERE r.federated = 1"
)


class FederatedGrants:
    """Compiles what callers hold, once for each change of roles and grants."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: Remembered[int, GrantSet] = Remembered(4096)

    async def of(self, principal: str, number: int, scope: RoleScope) -> GrantSet:
        """What the user of that name holds by the roles of a token. No read while `number` stays."""
        name = f"{principal}\0{scope.text}"
        known = self._known.recall(name, number)
        if known is not None:
            return known
        held = await self._reader.rows(HELD_BY_PRINCIPAL, principal, principal, principal)
        roles = scope.roles
        if roles:
            # A token that names no role activates those that the user was given, and no provider has said more.
            held += await self._reader.rows(_HELD_BY_FEDERATED)
        grants = GrantSet((key, privilege) for role, key, privilege in held if roles is None or role in roles)
        return self._known.keep(name, number, grants)
