"""What a caller's roles hold, compiled: by what it is held on, with all that comes with each privilege."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebed.core.access import Securable

from .privileges import MASKS, mask_of

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

    def carriers(self, privilege: int, beginning: str = "") -> frozenset[str]:
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
