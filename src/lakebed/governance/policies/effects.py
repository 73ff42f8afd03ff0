"""What a change of attachments does to a table: which policies hold for it before and after, and why. Pure.

What is compared is what would be done to the table: another policy, or the same with other parameters. That the same
policy comes from elsewhere from now on changes nothing for the table, and is no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .model import Path
from .resolving import Applicable


class Effect(NamedTuple):
    """A policy in place of another, or where none was, or gone. Of one type."""

    type: str
    before: Applicable | None
    after: Applicable | None

    @property
    def why(self) -> str:
        """The reason, for people: why the later one holds, or that none does any more."""
        if self.after is not None:
            return self.after.reason
        return f"no other policy of {self.type} is attached to it, or to what it is in"


def effects_of(before: Sequence[Applicable], after: Sequence[Applicable]) -> list[Effect]:
    """What differs between two answers of `resolve` for one target, by type and policy."""
    was = {_slot(one): one for one in before}
    now = {_slot(one): one for one in after}
    pairs = [Effect(slot[0], was.get(slot), now.get(slot)) for slot in sorted(was.keys() | now.keys())]
    return [pair for pair in pairs if _said(pair.before) != _said(pair.after)]


def _slot(one: Applicable) -> tuple[str, Path]:
    """What a policy takes the place of another in: of an inheritable type there is one, of others each has its own."""
    policy = one.policy
    return policy.type, () if policy.inheritable else (*policy.namespace, policy.name)


def _said(one: Applicable | None) -> tuple[int, int, dict[str, str]] | None:
    return None if one is None else (one.policy.id, one.policy.version, dict(one.parameters))
