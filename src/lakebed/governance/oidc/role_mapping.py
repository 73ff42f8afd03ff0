"""Maps claims of a provider's tokens to principal roles: filtered, rewritten, then parsed as a scope. Pure."""

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
    """How claims map to roles."""

    path: ClaimPath | None = None
    """None: tokens contain no roles, and all roles granted to the user are activated."""

    keep: re.Pattern[str] | None = None
    """Ignores claims that do not match it in full."""

    rewrites: Sequence[tuple[re.Pattern[str], str]] = ()
    """Replacements, applied in order."""

    @classmethod
    def of(cls, path: str, keep: str = "", rewrites: Mapping[str, str] | None = None) -> RoleMapping:
        """From settings. Raises InvalidInput for an invalid expression."""
        pairs = [(_pattern(pattern), replacement) for pattern, replacement in (rewrites or {}).items()]
        for pattern, replacement in pairs:
            _check_replacement(pattern, replacement)
        return cls(ClaimPath.parse(path) if path else None, _pattern(keep) if keep else None, tuple(pairs))

    def scope(self, claims: Mapping[str, object]) -> RoleScope:
        """The roles that the token activates. Ignores results other than `PRINCIPAL_ROLE:NAME`."""
        if self.path is None:
            return ALL_ROLES
        names: set[str] = set()
        for claimed in _texts(self.path.find(claims)):
            if self.keep is not None and not self.keep.fullmatch(claimed):
                continue
            for pattern, replacement in self.rewrites:
                claimed = pattern.sub(replacement, claimed)
            name = claimed.removeprefix(ROLE_PREFIX)
            if name == claimed or not name:
                continue
            if name == "ALL":
                return ALL_ROLES
            names.add(name)
        return RoleScope(frozenset(names))


def _texts(found: object) -> list[str]:
    """The strings in a claim: a list, or one string separated by spaces."""
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
    """Refuse a reference to a missing group, which would otherwise fail at the first matching token."""
    try:
        re.compile(f"(?:{pattern.pattern})|").sub(replacement, "", count=1)
    except (re.error, IndexError) as error:
        raise InvalidInput(
            f"not a valid replacement for its expression: {error}. found={replacement[:120]!r}"
        ) from error
