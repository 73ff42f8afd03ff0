"""Which principal roles a provider's token stands for: claims filtered, rewritten, and read as a scope. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.core.errors import InvalidInput

from ..tokens.scopes import ALL_ROLES, ROLE_PREFIX, RoleScope
from .claim_paths import ClaimPath

_MAX_ROLES = 1000


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """How roles are found in claims."""

    path: ClaimPath | None = None
    """None: the token says nothing of roles, and those are activated that the user holds here."""

    keep: re.Pattern[str] | None = None
    """Only claims that match as a whole are looked at."""

    rewrites: Sequence[tuple[re.Pattern[str], str]] = ()
    """What matches is replaced, one after the other."""

    @classmethod
    def of(cls, path: str, keep: str = "", rewrites: Mapping[str, str] | None = None) -> RoleMapping:
        """As settings spell it. Raises InvalidInput for an expression that cannot be."""
        pairs = [(_pattern(pattern), replacement) for pattern, replacement in (rewrites or {}).items()]
        for pattern, replacement in pairs:
            _check_replacement(pattern, replacement)
        return cls(ClaimPath.parse(path) if path else None, _pattern(keep) if keep else None, tuple(pairs))

    def scope(self, claims: Mapping[str, object]) -> RoleScope:
        """The roles that the token activates. What does not come out as `PRINCIPAL_ROLE:NAME` is none."""
        if self.path is None:
            return ALL_ROLES
        names: set[str] = set()
        for said in _texts(self.path.find(claims)):
            if self.keep is not None and not self.keep.fullmatch(said):
                continue
            for pattern, replacement in self.rewrites:
                said = pattern.sub(replacement, said)
            name = said.removeprefix(ROLE_PREFIX)
            if name == said or not name:
                continue
            if name == "ALL":
                return ALL_ROLES
            names.add(name)
        return RoleScope(frozenset(names))


def _texts(found: object) -> list[str]:
    """Roles as providers write them: a list, or one text with spaces as scopes have them."""
    if isinstance(found, str):
        return found.split()[:_MAX_ROLES]
    if isinstance(found, list):
        return [item for item in found[:_MAX_ROLES] if isinstance(item, str)]
    return []


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInput(f"not a regular expression: {error}. found={text[:120]!r}") from error


def _check_replacement(pattern: re.Pattern[str], replacement: str) -> None:
    """A reference to a group that there is not would only be found out by the first token that matches."""
    try:
        re.compile(f"(?:{pattern.pattern})|").sub(replacement, "", count=1)
    except (re.error, IndexError) as error:
        raise InvalidInput(f"not a replacement for its expression: {error}. found={replacement[:120]!r}") from error
