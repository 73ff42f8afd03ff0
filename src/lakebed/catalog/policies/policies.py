"""Creates, reads, lists, updates and drops policies in their namespaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakebed.core.errors import (
    AlreadyExists,
    InvalidInput,
    NoSuchPolicy,
    PolicyInUse,
    PolicyVersionMismatch,
)
from lakebed.core.unset import UNSET, Unset
from lakebed.governance.policies import Policy, PolicyType, check_description, check_policy_name, rows
from lakebed.governance.policies.rows import PolicyMapping
from lakebed.governance.rbac import GrantKind, policy_securable
from lakebed.governance.rbac.grant_cleanup import invalidate_policy_grants
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..idempotency import IdempotencyKeys, Mutation, StoredResponse
from ..identifiers import Levels, check_namespace, display, path_of
from ..model import Catalog
from ..namespaces import Namespaces
from .policy_events import append_attachment_event, append_policy_event
from .policy_types import PolicyTypes

__all__ = ["NewPolicy", "PolicyManagement", "PolicyPage"]

_BEFORE_FIRST: Final = ""
_TARGETS_A_STEP: Final = 1000
_TARGETS_NAMED: Final = 3

RenderPolicy = Callable[[Policy], bytes]
"""Renders the response, which is stored for repeated requests with the same idempotency key."""


@dataclass(frozen=True, slots=True)
class NewPolicy:
    """A policy to create."""

    name: str
    type: str
    content: str | None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyPage:
    """One page of the policies of a namespace."""

    namespace: Levels
    names: list[str]
    truncated: bool


class PolicyManagement:
    """The use cases of policies, except attachments."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        namespaces: Namespaces,
        keys: IdempotencyKeys,
        types: PolicyTypes,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._namespaces = namespaces
        self._keys = keys
        self._types = types

    async def find(self, reader: Reader, catalog: Catalog, levels: Levels, name: str) -> Policy:
        """The policy of that name, without authorization. Raises NoSuchPolicy, also if the namespace does not exist."""
        policy = await self.look_up(reader, catalog, levels, name)
        if policy is None:
            raise NoSuchPolicy(f"Policy does not exist: {display((*levels, name))}")
        return policy

    async def look_up(self, reader: Reader, catalog: Catalog, levels: Levels, name: str) -> Policy | None:
        """The same before authorization: None if it does not exist."""
        row = await reader.row(rows.POLICY, catalog.id, path_of(levels), name)
        return None if row is None else rows.policy_from(row)

    async def authorize(
        self, caller: Caller, catalog: Catalog, parent: Levels, policy: Policy | None, action: Action
    ) -> None:
        """Check the permission for `action` on a policy in the namespace `parent`. Raises AccessDenied.

        Access policies name the namespace, grants the policy itself.
        """
        on = None if policy is None else policy_securable(catalog.id, parent, policy.id)
        await self._authorizer.check(caller, catalog, action, namespace=parent, kind=GrantKind.POLICY, securable=on)

    async def create(
        self, mutation: Mutation, catalog_name: str, levels: Sequence[str], request: NewPolicy, show: RenderPolicy
    ) -> Policy:
        """Create a policy. Raises NoSuchNamespace, AlreadyExists, InvalidInput for an unknown type, InvalidPolicy."""
        f, caller = self._f, mutation.caller
        parent = check_namespace(levels)
        check_policy_name(request.name)
        check_description(request.description)
        now_ms = f.clock.now_ms()
        catalog = await self._catalogs.find(f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.CREATE_POLICY, namespace=parent)
        await self._namespaces.find(f.meta, catalog, parent)
        kind = await self._types.stated(f.meta, catalog, request.type)
        kind.check_content(request.content)
        new = Policy(
            id=0,
            namespace=parent,
            name=request.name,
            type=kind.name,
            inheritable=kind.inheritable,
            description=request.description,
            content=request.content or "",
            version=0,
            created_ms=now_ms,
            updated_ms=now_ms,
        )

        async def work(tx: Transaction) -> Policy:
            await self._keys.keep(tx, mutation.key, StoredResponse(200, body=show(new)))
            catalog = await self._catalogs.find(tx, catalog_name)
            namespace = await self._namespaces.find(tx, catalog, parent)
            await self._confirm_type(tx, catalog, kind)
            made = await tx.row(
                rows.INSERT_POLICY,
                catalog.id,
                namespace.id,
                new.name,
                new.type,
                int(new.inheritable),
                new.description,
                new.content.encode(),
                now_ms,
                now_ms,
            )
            if made is None:
                raise AlreadyExists(f"Policy already exists: {new}")
            policy = replace(new, id=int(made[0]))
            await _keep_version(tx, policy, caller)
            await append_policy_event(f.outbox, tx, "CatalogPolicyCreated", caller, now_ms, catalog_name, new)
            return policy

        return await f.meta.transact(work)

    async def get(self, caller: Caller, catalog_name: str, levels: Sequence[str], name: str) -> Policy:
        """The policy, if the caller can read it. Raises NoSuchPolicy."""
        catalog, parent = await self._authorized(caller, catalog_name, levels, name, Action.READ_POLICY)
        return await self.find(self._f.meta, catalog, parent, name)

    async def list(
        self, caller: Caller, catalog_name: str, levels: Sequence[str], *, kind: str = "", after: str, limit: int
    ) -> PolicyPage:
        """The policies of a namespace, by name; those of one type, if one is given.

        Raises NoSuchNamespace, InvalidInput for an unknown type.
        """
        parent = check_namespace(levels)
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.LIST_POLICIES, namespace=parent)
        namespace = await self._namespaces.find(self._f.meta, catalog, parent)
        if kind:
            await self._types.stated(self._f.meta, catalog, kind)
        found = await self._f.meta.rows(rows.POLICY_NAMES_AFTER, namespace.id, kind, kind, after, limit + 1)
        return PolicyPage(parent, [str(row[0]) for row in found[:limit]], len(found) > limit)

    async def update(
        self,
        mutation: Mutation,
        catalog_name: str,
        levels: Sequence[str],
        name: str,
        *,
        description: str | Unset | None,
        content: str | Unset | None,
        current_version: int,
        show: RenderPolicy,
    ) -> Policy:
        """Replace description and content, unless unset. Equal values change nothing, nor the version.

        Raises NoSuchPolicy, PolicyVersionMismatch, InvalidPolicy.
        """
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()
        catalog, parent = await self._authorized(caller, catalog_name, levels, name, Action.UPDATE_POLICY)
        seen = await self.find(f.meta, catalog, parent, name)
        _check_version(seen, current_version)
        new_description = seen.description if description is UNSET else check_description(description)
        text = seen.content if content is UNSET else content
        if text != seen.content:
            kind = await self._types.find(f.meta, catalog, seen.type)
            kind.check_content(text)

        async def work(tx: Transaction) -> Policy:
            policy = await self.find(tx, await self._catalogs.find(tx, catalog_name), parent, name)
            _check_version(policy, current_version)
            if policy.id != seen.id:
                # A new policy of that name, perhaps of another type: the content was not checked for it.
                raise PolicyVersionMismatch(f"policy was recreated concurrently. policy={policy}")
            changed = policy
            if (new_description, text) != (policy.description, policy.content):
                changed = replace(
                    policy,
                    description=new_description,
                    content=text or "",
                    version=policy.version + 1,
                    updated_ms=now_ms,
                )
            await self._keys.keep(tx, mutation.key, StoredResponse(200, body=show(changed)))
            if changed is not policy:
                await tx.run(
                    rows.UPDATE_POLICY,
                    changed.description,
                    changed.content.encode(),
                    changed.version,
                    now_ms,
                    changed.id,
                )
                await _keep_version(tx, changed, caller)
                await append_policy_event(f.outbox, tx, "CatalogPolicyUpdated", caller, now_ms, catalog_name, changed)
            return changed

        return await f.meta.transact(work)

    async def drop(
        self, mutation: Mutation, catalog_name: str, levels: Sequence[str], name: str, *, detach_all: bool = False
    ) -> None:
        """Remove a policy, and with `detach_all` its attachments. Raises NoSuchPolicy, PolicyInUse."""
        f, caller = self._f, mutation.caller
        now_ms = f.clock.now_ms()
        _, parent = await self._authorized(caller, catalog_name, levels, name, Action.DROP_POLICY)

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, StoredResponse(204))
            policy = await self.find(tx, await self._catalogs.find(tx, catalog_name), parent, name)
            targets = await self._targets(tx, policy)
            if targets and not detach_all:
                raise PolicyInUse(
                    f"policy is attached; detach it, or drop it with detach-all. policy={policy} {_named(targets)}"
                )
            await invalidate_policy_grants(tx, policy.id)
            await tx.run(rows.DELETE_POLICY, policy.id)
            for target in targets:
                await append_attachment_event(
                    f.outbox,
                    tx,
                    "CatalogPolicyDetached",
                    caller,
                    now_ms,
                    catalog_name,
                    policy,
                    target.target,
                    target.entry,
                )
            await append_policy_event(f.outbox, tx, "CatalogPolicyDropped", caller, now_ms, catalog_name, policy)

        await f.meta.transact(work)

    async def _authorized(
        self, caller: Caller, catalog_name: str, levels: Sequence[str], name: str, action: Action
    ) -> tuple[Catalog, Levels]:
        """The catalog and namespace of a policy, if the caller has the permission for `action`."""
        parent = check_namespace(levels)
        check_policy_name(name)
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self.authorize(caller, catalog, parent, await self.look_up(self._f.meta, catalog, parent, name), action)
        return catalog, parent

    async def _confirm_type(self, tx: Transaction, catalog: Catalog, kind: PolicyType) -> None:
        """Raise InvalidInput if the type changed since the content was checked."""
        if await self._types.stated(tx, catalog, kind.name) != kind:
            raise InvalidInput(f"policy type was recreated concurrently. type={kind.name}", argument="type")

    async def _targets(self, tx: Transaction, policy: Policy) -> Sequence[PolicyMapping]:
        targets: list[PolicyMapping] = []
        after = _BEFORE_FIRST
        while found := await tx.rows(rows.TARGETS_OF, policy.id, after, _TARGETS_A_STEP):
            targets += map(rows.mapping_from, found)
            after = targets[-1].key
        return targets


async def _keep_version(tx: Transaction, policy: Policy, caller: Caller) -> None:
    """Store the version of a policy in the transaction that creates it."""
    await tx.run(
        rows.INSERT_VERSION,
        policy.id,
        policy.version,
        policy.description,
        policy.content.encode(),
        caller.principal.name,
        policy.updated_ms,
    )


def _check_version(policy: Policy, current_version: int) -> None:
    if policy.version != current_version:
        raise PolicyVersionMismatch(
            f"policy is at another version. policy={policy} expected={current_version} found={policy.version}",
            condition="current-policy-version",
        )


def _named(targets: Sequence[PolicyMapping]) -> str:
    """Some of the targets, for an error message."""
    names = ", ".join(str(target.target) for target in targets[:_TARGETS_NAMED])
    return f"targets={names}" + (f" and {len(targets) - _TARGETS_NAMED} more" if len(targets) > _TARGETS_NAMED else "")
