"""The grants of callers, cached until a role or grant changes.

Every lookup of a user also reads `rows.CHANGE_NUMBER`. While the number is unchanged, cached grants are valid in every
process; after a change, one more read loads them. So a change applies to the next request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebed.core.access import Securable
from lakebed.meta.seam import Reader

from ..validated_cache import ValidatedCache
from . import rows
from .privileges import MASKS, mask_of

_MAX_CACHED: Final = 4096


class CallerGrants:
    """Loads the grants of users by their roles."""

    __slots__ = ("_cache", "_federated", "_reader")

    def __init__(self, reader: Reader, *, federated: bool = False) -> None:
        """With `federated`, roles assigned by the identity provider are activated by name alone."""
        self._reader = reader
        self._federated = federated
        self._cache: ValidatedCache[int, GrantSet] = ValidatedCache(_MAX_CACHED)

    async def of(self, principal: str, number: int | None, roles: frozenset[str] | None = None) -> GrantSet | None:
        """The grants of a user by all its roles, or by the named ones that it has. None without a number.

        `number` is that of the latest change, read together with the user. Cached while it is unchanged.
        """
        if number is None:
            return None
        name = "\0".join((principal, "all") if roles is None else (principal, "some", *sorted(roles)))
        cached = self._cache.get(name, number)
        if cached is not None:
            return cached
        # The read may see a change after the number: then the next request reads once more.
        granted = await self._reader.rows(rows.GRANTS_OF_PRINCIPAL, *(principal,) * 6)
        if self._federated and roles:
            granted += await self._reader.rows(rows.GRANTS_OF_FEDERATED_ROLES)
        if roles is not None:
            granted = [row for row in granted if row[0] in roles]
        grants = GrantSet(
            ((key, privilege) for _, key, privilege in granted if key is not None),
            {role for role, _, _ in granted if role is not None},
        )
        return self._cache.put(name, number, grants)


_MAX_KEY_SETS: Final = 16
"""Cached lists: the caller chooses their keys."""


class GrantSet:
    """Implements `core.access.Grants`. Immutable: a change of roles or grants creates a new one.

    Privileges are a bit mask, so that a check costs one lookup per level of the path, however many privileges are
    included.
    """

    __slots__ = ("_keys", "_masks", "_roles")

    def __init__(self, grants: Iterable[tuple[str, int]] = (), roles: Iterable[str] = ()) -> None:
        """`grants` are securable keys and privilege numbers from rows; `roles` are the activated roles.

        Ignores unknown numbers, which a later release may have stored.
        """
        masks: dict[str, int] = {}
        for key, privilege in grants:
            masks[key] = masks.get(key, 0) | MASKS.get(privilege, 0)
        self._masks: Final = masks
        self._roles: Final = tuple(sorted(roles))
        self._keys: Final[dict[tuple[int, str], frozenset[str]]] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the roles, sorted, including those without grants."""
        return self._roles

    def covers(self, securable: Securable, privileges: Iterable[int]) -> bool:
        """Whether each privilege is granted on some level of the path. False without privileges."""
        needed = mask_of(privileges)
        if not needed:
            return False
        masks = self._masks
        for key in securable.path:
            granted = masks.get(key)
            if granted is not None:
                needed &= ~granted
                if not needed:
                    return True
        return False

    def granted_keys(self, privilege: int, prefix: str = "") -> frozenset[str]:
        """The keys with that prefix on which the privilege is granted, without the prefix. For filtering lists.

        Cached, because a list is requested page by page.
        """
        keys = self._keys.get((privilege, prefix))
        if keys is None:
            bit, start = 1 << privilege, len(prefix)
            keys = frozenset(
                key[start:] for key, granted in self._masks.items() if granted & bit and key.startswith(prefix)
            )
            if len(self._keys) >= _MAX_KEY_SETS:
                self._keys.clear()
            self._keys[privilege, prefix] = keys
        return keys

    def __repr__(self) -> str:
        return f"GrantSet(of {len(self._masks)} securables)"
