"""The grants of who calls, made once for each change of roles and grants.

Whoever finds a user reads `rows.CHANGE_NUMBER` in the same statement. While the number stays, what was compiled is
good, in this process and in every other; when it moves, one more read makes it anew. So a change holds for the next
request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebed.core.access import Securable
from lakebed.meta.seam import Reader

from ..validated_cache import ValidatedCache
from . import rows
from .privileges import MASKS, mask_of

_REMEMBERED: Final = 4096


class CallerGrants:
    """What users hold by their roles."""

    __slots__ = ("_federated", "_known", "_reader")

    def __init__(self, reader: Reader, *, federated: bool = False) -> None:
        """With `federated`, roles of which a provider of identities says who has them are activated by being named.

        Nobody is given them here, so that nobody has to take them away here either.
        """
        self._reader = reader
        self._federated = federated
        self._known: ValidatedCache[int, GrantSet] = ValidatedCache(_REMEMBERED)

    async def of(self, principal: str, number: int | None, roles: frozenset[str] | None = None) -> GrantSet | None:
        """What a user holds, by all its roles or by those of these names that it has; None without a number.

        `number` is that of the latest change, as it was read with the user. No read while it stays.
        """
        if number is None:
            return None
        name = "\0".join((principal, "all") if roles is None else (principal, "some", *sorted(roles)))
        known = self._known.get(name, number)
        if known is not None:
            return known
        # It may see a later change already than the number does: then the next request makes it once more.
        held = await self._reader.rows(rows.HELD_BY_PRINCIPAL, *(principal,) * 6)
        if self._federated and roles:
            held += await self._reader.rows(rows.HELD_BY_FEDERATED)
        if roles is not None:
            held = [row for row in held if row[0] in roles]
        grants = GrantSet(
            ((key, privilege) for _, key, privilege in held if key is not None),
            {role for role, _, _ in held if role is not None},
        )
        return self._known.put(name, number, grants)


_LISTS: Final = 16
"""Lists that are remembered: who asks chooses what for."""


class GrantSet:
    """Implements `core.access.Grants`. It never changes: a change of roles or grants makes another one.

    Privileges are bits of a number, so that a question costs one look for each step of the way, and no more for a
    privilege that comes with a hundred others.
    """

    __slots__ = ("_carriers", "_held", "_roles")

    def __init__(self, grants: Iterable[tuple[str, int]] = (), roles: Iterable[str] = ()) -> None:
        """`grants` are keys of securables and numbers of privileges, as rows have them; `roles` are who holds them.

        A number that this build does not know holds nothing: a later one may have stored it.
        """
        held: dict[str, int] = {}
        for key, privilege in grants:
            held[key] = held.get(key, 0) | MASKS.get(privilege, 0)
        self._held: Final = held
        self._roles: Final = tuple(sorted(roles))
        self._carriers: Final[dict[tuple[int, str], frozenset[str]]] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the roles, in order; those that hold nothing here, too."""
        return self._roles

    def covers(self, securable: Securable, privileges: Iterable[int]) -> bool:
        """Whether each of the privileges is held on something on the way. Not so if none is asked for."""
        needed = mask_of(privileges)
        if not needed:
            return False
        held = self._held
        for key in securable.path:
            carried = held.get(key)
            if carried is not None:
                needed &= ~carried
                if not needed:
                    return True
        return False

    def granted_keys(self, privilege: int, beginning: str = "") -> frozenset[str]:
        """The keys of what the privilege is held on itself, for lists of what may be seen.

        Only those that begin so, and without it. Found once: the same list is asked for a page at a time.
        """
        known = self._carriers.get((privilege, beginning))
        if known is None:
            bit, start = 1 << privilege, len(beginning)
            known = frozenset(
                key[start:] for key, carried in self._held.items() if carried & bit and key.startswith(beginning)
            )
            if len(self._carriers) >= _LISTS:
                self._carriers.clear()
            self._carriers[privilege, beginning] = known
        return known

    def __repr__(self) -> str:
        return f"GrantSet(of {len(self._held)} securables)"
