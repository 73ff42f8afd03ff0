"""Attaches policies to table buckets, namespaces, tables and views, and lists which apply to them, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakebed.core.errors import AttachmentConflict, NoSuchAttachment, NotAttachable
from lakebed.governance.policies import AttachmentTarget, EffectivePolicy, Policy, PolicyType, check_policy_name, rows
from lakebed.governance.policies.rows import PolicyMapping
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action
from ..catalogs.properties import check_properties
from ..catalogs.service import CatalogService
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Levels, check_namespace
from ..model import Catalog, Page
from .applicable import applicable_to
from .policies import PolicyManagement
from .policy_events import append_attachment_event
from .policy_types import PolicyTypes
from .targets import CATALOG, PolicyTargetLookup, PolicyTargets, TargetName, read_action

__all__ = ["CATALOG", "PolicyAttachments", "TargetName"]


class PolicyAttachments:
    """The use cases of attachments."""

    def __init__(
        self,
        object_context: ObjectContext,
        catalogs: CatalogService,
        keys: IdempotencyKeys,
        types: PolicyTypes,
        policies: PolicyManagement,
        targets: PolicyTargets,
    ) -> None:
        self._f = object_context
        self._catalogs = catalogs
        self._keys = keys
        self._types = types
        self._policies = policies
        self._targets = targets

    async def attach(
        self,
        mutation: Mutation,
        catalog_name: str,
        levels: Sequence[str],
        name: str,
        target: TargetName,
        parameters: Mapping[str, str],
    ) -> None:
        """Attach a policy to a target, or replace the parameters of its attachment.

        Raises NoSuchPolicy, NoSuchTarget, NotAttachable, AttachmentConflict.
        """
        f, caller = self._f, mutation.caller
        check_properties(parameters)
        parent = await self._authorized(caller, catalog_name, levels, name, target, Action.ATTACH_POLICY)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            catalog = await self._catalogs.find(tx, catalog_name)
            policy = await self._policies.find(tx, catalog, parent, name)
            lookup, place = await self._targets.find(tx, catalog_name, target)
            kind = await self.confirm_attachable(tx, catalog, policy, lookup, place)
            changed = await tx.run(
                rows.ATTACH,
                lookup.key,
                policy.id,
                catalog.id,
                None if lookup.namespace is None or lookup.entry is not None else lookup.namespace.id,
                None if lookup.entry is None else lookup.entry.id,
                policy.type,
                # The store allows one inheritable policy of a type per target, and any number of additive ones.
                int(policy.inheritable and not kind.is_cumulative),
                rows.pack_parameters(parameters),
                now_ms,
            )
            if changed:
                await append_attachment_event(
                    f.outbox, tx, "CatalogPolicyAttached", caller, now_ms, catalog_name, policy, place, lookup.entry_id
                )

        await f.meta.transact(work)

    async def confirm_attachable(
        self, reader: Reader, catalog: Catalog, policy: Policy, lookup: PolicyTargetLookup, place: AttachmentTarget
    ) -> PolicyType:
        """The type of a policy, if it can be attached to a target now.

        Raises NotAttachable, AttachmentConflict.
        """
        kind = await self._types.find(reader, catalog, policy.type)
        if place.kind not in kind.targets:
            allowed = ", ".join(kind.targets)
            raise NotAttachable(
                f"policy type {kind.name} cannot be attached to a {place.kind}. expected={allowed} target={place}"
            )
        if kind.is_cumulative or not policy.inheritable:
            return kind
        other = await reader.row(rows.OTHER_OF_TYPE, lookup.key, policy.type, policy.id)
        if other is not None:
            raise AttachmentConflict(
                f"target already has a policy of this type; detach it first. target={place} type={policy.type}"
                f" policy={rows.policy_from(other)}"
            )
        return kind

    async def detach(
        self, mutation: Mutation, catalog_name: str, levels: Sequence[str], name: str, target: TargetName
    ) -> None:
        """Detach a policy from a target. Raises NoSuchPolicy, NoSuchTarget, NoSuchAttachment."""
        f, caller = self._f, mutation.caller
        parent = await self._authorized(caller, catalog_name, levels, name, target, Action.DETACH_POLICY)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            policy = await self._policies.find(tx, await self._catalogs.find(tx, catalog_name), parent, name)
            lookup, place = await self._targets.find(tx, catalog_name, target)
            if not await tx.run(rows.DETACH, lookup.key, policy.id):
                raise not_attached(policy, place)
            await append_attachment_event(
                f.outbox, tx, "CatalogPolicyDetached", caller, now_ms, catalog_name, policy, place, lookup.entry_id
            )

        await f.meta.transact(work)

    async def targets(
        self, caller: Caller, catalog_name: str, levels: Sequence[str], name: str, *, after: str, limit: int
    ) -> Page[PolicyMapping]:
        """The targets of a policy, including dropped tables that can be restored. Raises NoSuchPolicy."""
        policy = await self._policies.get(caller, catalog_name, levels, name)
        found = await self._f.meta.rows(rows.TARGETS_OF, policy.id, after, limit + 1)
        return Page.of([rows.mapping_from(row) for row in found], limit)

    async def applicable(
        self,
        caller: Caller,
        catalog_name: str,
        target: TargetName,
        *,
        kind: str = "",
        action: Action | None = None,
    ) -> list[EffectivePolicy]:
        """The policies that apply to a target, with the reason; those of one type, if one is given.

        Requires permission to read the target, or for `action` on it, and none on policies. Raises NoSuchNamespace,
        NoSuchTable, InvalidInput for an unknown type.
        """
        lookup = await self._targets.look_up(self._f.meta, catalog_name, target)
        await self._targets.check(caller, lookup, action or read_action(target))
        if lookup.missing is not None:
            raise lookup.missing
        if kind:
            await self._types.stated(self._f.meta, lookup.catalog, kind)
        found = await applicable_to(self._f.meta, lookup.catalog.id, target.namespace, lookup.entry)
        return [one for one in found if not kind or one.policy.type == kind]

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _authorized(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str],
        name: str,
        target: TargetName,
        action: Action,
    ) -> Levels:
        """The namespace of a policy, if the caller has the permission for `action` on it and on the target."""
        parent = check_namespace(levels)
        check_policy_name(name)
        lookup = await self._targets.look_up(self._f.meta, catalog_name, target)
        policy = await self._policies.look_up(self._f.meta, lookup.catalog, parent, name)
        await self._policies.authorize(caller, lookup.catalog, parent, policy, action)
        await self._targets.check(caller, lookup, action)
        return parent


def not_attached(policy: Policy, place: AttachmentTarget) -> NoSuchAttachment:
    """The error for a policy that is not attached to a target."""
    return NoSuchAttachment(f"policy is not attached to the target. policy={policy} target={place}")
