"""The grants of who calls, made once for each change of roles and grants.

Whoever finds a user reads `rows.CHANGE_NUMBER` in the same statement. While the number stays, what was compiled is
good, in this process and in every other; when it moves, one more read makes it anew. So a change holds for the next
request.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import Reader

from ..remembered import Remembered
from . import rows
from .grants import GrantSet

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
        self._known: Remembered[int, GrantSet] = Remembered(_REMEMBERED)

    async def of(self, principal: str, number: int | None, roles: frozenset[str] | None = None) -> GrantSet | None:
        """What a user holds, by all its roles or by those of these names that it has; None without a number.

        `number` is that of the latest change, as it was read with the user. No read while it stays.
        """
        if number is None:
            return None
        name = "\0".join((principal, "all") if roles is None else (principal, "some", *sorted(roles)))
        known = self._known.recall(name, number)
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
        return self._known.keep(name, number, grants)
