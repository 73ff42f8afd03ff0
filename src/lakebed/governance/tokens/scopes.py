"""Scopes: which principal roles a token activates.

PRINCIPAL_ROLE:NAME     that role
PRINCIPAL_ROLE:ALL      every role that the principal holds
catalog, sign           words of Iceberg's clients, which name no role: all of them; in an exchange, those of the
                        token that is exchanged
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidScope

ROLE_PREFIX: Final = "PRINCIPAL_ROLE:"
ALL_ROLES_SCOPE: Final = "PRINCIPAL_ROLE:ALL"
_EVERY: Final = "ALL"
_WORDS: Final = frozenset({"catalog", "sign"})
_MAX_CHARS: Final = 4096
_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,256}")


@dataclass(frozen=True, slots=True)
class RoleScope:
    """The roles that are activated: those named, or all that the principal holds."""

    roles: frozenset[str] | None = None
    """None is all of them."""

    @property
    def text(self) -> str:
        """As a token and its answer say it."""
        if self.roles is None:
            return ALL_ROLES_SCOPE
        return " ".join(ROLE_PREFIX + name for name in sorted(self.roles))

    def includes(self, other: RoleScope) -> bool:
        """Whether `other` activates nothing that this one does not."""
        return self.roles is None or (other.roles is not None and other.roles <= self.roles)


ALL_ROLES: Final = RoleScope()


def parse_scope(text: str | None, *, within: RoleScope = ALL_ROLES) -> RoleScope:
    """The roles that a request asks for; those of `within` if it names none. Raises InvalidScope.

    What is asked for beyond `within` is refused, too.
    """
    if text is None:
        return within
    if len(text) > _MAX_CHARS:
        raise InvalidScope("the scope is too long", argument="scope")
    names: set[str] = set()
    wants_every = False
    for word in text.split(" "):
        if not word or word in _WORDS:
            continue
        name = word.removeprefix(ROLE_PREFIX)
        # Not repeated in the message: it may be anything a stranger sent.
        if name == word or not _NAME.fullmatch(name):
            raise InvalidScope(f"a scope is {ROLE_PREFIX}NAME, {ALL_ROLES_SCOPE}, catalog or sign", argument="scope")
        if name == _EVERY:
            wants_every = True
        else:
            names.add(name)
    asked = RoleScope(frozenset(names)) if names else within
    if wants_every:
        asked = ALL_ROLES
    if not within.includes(asked):
        raise InvalidScope("the scope is wider than that of the token", argument="scope")
    return asked


def stored_scope(text: str) -> RoleScope:
    """The roles of a scope that this server wrote into a token."""
    return parse_scope(text)
