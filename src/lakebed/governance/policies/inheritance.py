"""Resolves the effective policies of a catalog, namespace, table or view. Pure.

Policies are inherited from the catalog down to the target. Of an inheritable type, only the nearest policy applies, and
contents are not merged: `{"enable": false}` on a table switches a type off. Of other types, all policies attached to
the target itself apply. Restricting policies are cumulative: all on the path apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .model import AttachedPolicy, AttachmentTarget, Path, Policy
from .restrictions import RESTRICTION_TYPES


class InheritanceLevel(NamedTuple):
    """A level of the path, and the policies attached to it."""

    target: AttachmentTarget
    attached: Sequence[AttachedPolicy] = ()


class ShadowedPolicy(NamedTuple):
    """A policy that a nearer one overrides."""

    policy: Policy
    target: AttachmentTarget


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """An effective policy of a target, and the reason."""

    policy: Policy
    target: AttachmentTarget
    """The target of the attachment."""
    inherited: bool
    """Whether it is attached above the target."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the attachment."""
    overrides: tuple[ShadowedPolicy, ...] = ()
    """Overridden policies of the same type, nearest first."""

    @property
    def reason(self) -> str:
        """The reason for display: `policy ns.p v3, inherited from namespace a.b, over ns.q v0 of catalog`."""
        where = f"inherited from {self.target}" if self.inherited else f"attached to {self.target}"
        over = ", ".join(f"{one.policy} v{one.policy.version} of {one.target}" for one in self.overrides)
        return f"policy {self.policy} v{self.policy.version}, {where}{f', over {over}' if over else ''}"


def resolve_policies(path: Sequence[InheritanceLevel]) -> list[EffectivePolicy]:
    """The effective policies at the end of a path: first those not inheritable, then by type and name."""
    nearest: dict[str | int, list[tuple[AttachmentTarget, AttachedPolicy]]] = {}
    own: list[EffectivePolicy] = []
    for depth, (target, attached) in enumerate(path, start=1):
        for attachment in attached:
            policy = attachment.policy
            if policy.type in RESTRICTION_TYPES:
                # By policy: if it is attached more than once, the nearest attachment counts.
                nearest.setdefault(policy.id, []).insert(0, (target, attachment))
            elif policy.inheritable:
                nearest.setdefault(policy.type, []).insert(0, (target, attachment))
            elif depth == len(path):
                own.append(EffectivePolicy(policy, target, inherited=False, parameters=attachment.parameters))
    inheritable = [_nearest(found, path[-1].target) for found in nearest.values()]
    return sorted([*own, *inheritable], key=sort_key)


def sort_key(applicable: EffectivePolicy) -> tuple[bool, str, tuple[str, ...], str]:
    """The sort key of effective policies."""
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
    """A difference between two resolutions: a policy that is added, replaced or removed."""

    type: str
    before: EffectivePolicy | None
    after: EffectivePolicy | None

    @property
    def why(self) -> str:
        """The reason for display."""
        if self.after is not None:
            return self.after.reason
        return f"no other policy of {self.type} is attached to it or its parents"


def policy_effects(before: Sequence[EffectivePolicy], after: Sequence[EffectivePolicy]) -> list[EffectivePolicyChange]:
    """The difference between two results of `resolve_policies` for one target, by type and policy."""
    old = {_slot(one): one for one in before}
    new = {_slot(one): one for one in after}
    pairs = [EffectivePolicyChange(slot[0], old.get(slot), new.get(slot)) for slot in sorted(old.keys() | new.keys())]
    return [pair for pair in pairs if _identity(pair.before) != _identity(pair.after)]


def _slot(one: EffectivePolicy) -> tuple[str, Path]:
    """What a policy replaces others in: inheritable types have one slot, others one per policy."""
    policy = one.policy
    return policy.type, () if policy.inheritable else (*policy.namespace, policy.name)


def _identity(one: EffectivePolicy | None) -> tuple[int, int, dict[str, str]] | None:
    return None if one is None else (one.policy.id, one.policy.version, dict(one.parameters))
