"""Which policies hold for a catalog, namespace, table or view, and why. Pure.

The way goes from the catalog down to the target. Of an inheritable type the nearest policy holds, whole: contents are
never merged, so that `{"enable": false}` further down switches a type off. Of other types those hold that are attached
to the target itself, all of them. Of types that restrict who sees what, all hold that are attached on the way: nothing
further down lifts what is above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .model import AttachedPolicy, AttachmentTarget, Path, Policy
from .restrictions import RESTRICTION_TYPES


class InheritanceLevel(NamedTuple):
    """One place on the way, and what is attached to it."""

    target: AttachmentTarget
    attached: Sequence[AttachedPolicy] = ()


class ShadowedPolicy(NamedTuple):
    """A policy that would hold if a nearer one did not."""

    policy: Policy
    target: AttachmentTarget


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """A policy that holds for a target, and why."""

    policy: Policy
    target: AttachmentTarget
    """Where it is attached."""
    inherited: bool
    """Whether that is above the target."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Given where it was attached."""
    overrides: tuple[ShadowedPolicy, ...] = ()
    """Policies of the same type that are attached further up, the nearest first."""

    @property
    def reason(self) -> str:
        """Why it holds, for people: `policy ns.p v3, inherited from namespace a.b, over ns.q v0 of catalog`."""
        where = f"inherited from {self.target}" if self.inherited else f"attached to {self.target}"
        over = ", ".join(f"{one.policy} v{one.policy.version} of {one.target}" for one in self.overrides)
        return f"policy {self.policy} v{self.policy.version}, {where}{f', over {over}' if over else ''}"


def resolve_policies(way: Sequence[InheritanceLevel]) -> list[EffectivePolicy]:
    """The policies that hold at the end of a way, those that are not inheritable first, then by type and name."""
    nearest: dict[str | int, list[tuple[AttachmentTarget, AttachedPolicy]]] = {}
    own: list[EffectivePolicy] = []
    for depth, (target, attached) in enumerate(way, start=1):
        for attachment in attached:
            policy = attachment.policy
            if policy.type in RESTRICTION_TYPES:
                # Each for itself: where it is attached more than once, it holds by the nearest.
                nearest.setdefault(policy.id, []).insert(0, (target, attachment))
            elif policy.inheritable:
                nearest.setdefault(policy.type, []).insert(0, (target, attachment))
            elif depth == len(way):
                own.append(EffectivePolicy(policy, target, inherited=False, parameters=attachment.parameters))
    inheritable = [_nearest(found, way[-1].target) for found in nearest.values()]
    return sorted([*own, *inheritable], key=sort_key)


def sort_key(applicable: EffectivePolicy) -> tuple[bool, str, tuple[str, ...], str]:
    """The place of a policy among those that hold for a target."""
    policy = applicable.policy
    return policy.inheritable, policy.type, policy.namespace, policy.name


def _nearest(found: Sequence[tuple[AttachmentTarget, AttachedPolicy]], end: AttachmentTarget) -> EffectivePolicy:
    (target, attachment), *others = found
    return EffectivePolicy(
        attachment.policy,
        target,
        inherited=target != end,
        parameters=attachment.parameters,
        overrides=tuple(ShadowedPolicy(other.policy, where) for where, other in others),
    )


class EffectivePolicyChange(NamedTuple):
    """A policy in place of another, or where none was, or gone. Of one type."""

    type: str
    before: EffectivePolicy | None
    after: EffectivePolicy | None

    @property
    def why(self) -> str:
        """The reason, for people: why the later one holds, or that none does any more."""
        if self.after is not None:
            return self.after.reason
        return f"no other policy of {self.type} is attached to it, or to what it is in"


def policy_effects(before: Sequence[EffectivePolicy], after: Sequence[EffectivePolicy]) -> list[EffectivePolicyChange]:
    """What differs between two answers of `resolve_policies` for one target, by type and policy."""
    was = {_slot(one): one for one in before}
    now = {_slot(one): one for one in after}
    pairs = [EffectivePolicyChange(slot[0], was.get(slot), now.get(slot)) for slot in sorted(was.keys() | now.keys())]
    return [pair for pair in pairs if _said(pair.before) != _said(pair.after)]


def _slot(one: EffectivePolicy) -> tuple[str, Path]:
    """What a policy takes the place of another in: of an inheritable type there is one, of others each has its own."""
    policy = one.policy
    return policy.type, () if policy.inheritable else (*policy.namespace, policy.name)


def _said(one: EffectivePolicy | None) -> tuple[int, int, dict[str, str]] | None:
    return None if one is None else (one.policy.id, one.policy.version, dict(one.parameters))
