"""OAuth scopes: the principal roles that a token activates.

PRINCIPAL_ROLE:NAME     that role
PRINCIPAL_ROLE:ALL      all roles of the principal
catalog, sign           scopes of Iceberg clients, which name no role: all roles; in an exchange, the roles of the
                        exchanged token
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidScope

ROLE_PREFIX: Final = "PRINCIPAL_ROLE:"
ALL_ROLES_SCOPE: Final = "PRINCIPAL_ROLE:ALL"
_ALL: Final = "ALL"
_ROLELESS: Final = frozenset({"catalog", "sign"})
_MAX_CHARS: Final = 4096
_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,256}")


@dataclass(frozen=True, slots=True)
class RoleScope:
    """The activated roles."""

    roles: frozenset[str] | None = None
    """None means all roles of the principal."""

    @property
    def text(self) -> str:
        """The scope as in tokens and responses."""
        if self.roles is None:
            return ALL_ROLES_SCOPE
        return " ".join(ROLE_PREFIX + name for name in sorted(self.roles))

    def includes(self, other: RoleScope) -> bool:
        """Whether `other` activates no further roles."""
        return self.roles is None or (other.roles is not None and other.roles <= self.roles)


ALL_ROLES: Final = RoleScope()


def parse_scope(text: str | None, *, within: RoleScope = ALL_ROLES) -> RoleScope:
    """The roles of a requested scope; those of `within` if it names none. Raises InvalidScope, also beyond `within`."""
    if text is None:
        return within
    if len(text) > _MAX_CHARS:
        raise InvalidScope("the scope is too long", argument="scope")
    names: set[str] = set()
    wants_all = False
    for word in text.split(" "):
        if not word or word in _ROLELESS:
            continue
        name = word.removeprefix(ROLE_PREFIX)
        # The error does not repeat it: the client sent it.
        if name == word or not _NAME.fullmatch(name):
            raise InvalidScope(f"a scope is {ROLE_PREFIX}NAME, {ALL_ROLES_SCOPE}, catalog or sign", argument="scope")
        if name == _ALL:
            wants_all = True
        else:
            names.add(name)
    scope = RoleScope(frozenset(names)) if names else within
    if wants_all:
        scope = ALL_ROLES
    if not within.includes(scope):
        raise InvalidScope("the requested scope exceeds that of the token", argument="scope")
    return scope
