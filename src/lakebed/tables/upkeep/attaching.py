"""Attaching policies to table buckets, namespaces, tables and views; and what holds for each of these, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.errors import AttachmentConflict, NoSuchAttachment, NoSuchTarget, NotAttachable
from lakebed.governance.policies import Applicable, Place, Policy, TargetKind, check_policy_name, rows
from lakebed.governance.policies.rows import Target
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller
from lakebed.tables.entries import Entries, no_such_entry
from lakebed.tables.gate import Action, Gate
from lakebed.tables.idempotency import Answer, IdempotencyKeys, Mutation
from lakebed.tables.identifiers import Identifier, Levels, check_identifier, check_namespace
from lakebed.tables.model import Entry, EntryKind, Namespace, Warehouse
from lakebed.tables.namespaces import no_such_namespace
from lakebed.tables.properties import check_properties
from lakebed.tables.warehouses import Warehouses

from .applicable import applicable_to, entry_place
from .policies import Policies
from .policy_events import tell_of_attachment
from .policy_types import PolicyTypes

__all__ = ["CATALOG", "Attaching", "TargetName", "TargetPage"]


class TargetName(NamedTuple):
    """What a policy goes with, by name: a table or view, a namespace if there is no name, else the table bucket."""

    namespace: Levels = ()
    name: str = ""

    @classmethod
    def of(cls, namespace: Sequence[str] = (), name: str = "") -> TargetName:
        """The target, if these make one. Raises InvalidName, InvalidInput."""
        if name:
            return cls(*check_identifier(namespace, name))
        return cls(check_namespace(namespace)) if namespace else cls()


CATALOG = TargetName()


class _Sought(NamedTuple):
    """A target as it was looked up, for the gate to be asked: only behind it may be told what of it is missing."""

    name: TargetName
    warehouse: Warehouse
    namespace: Namespace | None
    entry: Entry | None

    @property
    def place(self) -> Place | None:
        """The target, if it is there."""
        if not self.name.namespace:
            return Place(TargetKind.CATALOG)
        if self.name.name:
            return None if self.entry is None else entry_place(self.name.namespace, self.entry)
        return None if self.namespace is None else Place(TargetKind.NAMESPACE, self.name.namespace)

    @property
    def key(self) -> str:
        """As attachments have it."""
        if self.entry is not None:
            return rows.entry_key(self.entry.id)
        if self.namespace is not None and not self.name.name:
            return rows.namespace_key(self.namespace.id)
        return rows.warehouse_key(self.warehouse.bucket.id)


@dataclass(frozen=True, slots=True)
class TargetPage:
    """One page of the targets of a policy."""

    targets: list[Target]
    truncated: bool


class Attaching:
    """Attaches, detaches, and says what holds where."""

    def __init__(
        self,
        facilities: Facilities,
        gate: Gate,
        warehouses: Warehouses,
        entries: Entries,
        keys: IdempotencyKeys,
        types: PolicyTypes,
        policies: Policies,
    ) -> None:
        self._f = facilities
        self._gate = gate
        self._warehouses = warehouses
        self._entries = entries
        self._keys = keys
        self._types = types
        self._policies = policies

    async def attach(
        self,
        mutation: Mutation,
        warehouse_name: str,
        levels: Sequence[str],
        name: str,
        target: TargetName,
        parameters: Mapping[str, str],
    ) -> None:
        """Have a policy hold for a target; where it does already, with these parameters instead.

        Raises NoSuchPolicy, NoSuchTarget, NotAttachable, AttachmentConflict.
        """
        f, caller = self._f, mutation.caller
        check_properties(parameters)
        home = await self._admitted(caller, warehouse_name, levels, name, target, Action.ATTACH_POLICY)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, Answer(204))
            warehouse = await self._warehouses.find(tx, warehouse_name)
            policy = await self._policies.find(tx, warehouse, home, name)
            sought, place = await self._target(tx, warehouse_name, target)
            kind = await self._types.find(tx, warehouse, policy.type)
            if place.kind not in kind.targets:
                allowed = ", ".join(kind.targets)
                raise NotAttachable(f"policies of {kind.name} go with {allowed}, not with a {place.kind}: {place}")
            await self._confirm_only_one(tx, policy, sought.key, place)
            changed = await tx.run(
                rows.ATTACH,
                sought.key,
                policy.id,
                warehouse.bucket.id,
                None if sought.namespace is None or sought.entry is not None else sought.namespace.id,
                None if sought.entry is None else sought.entry.id,
                policy.type,
                int(policy.inheritable),
                rows.pack_parameters(parameters),
                now_ms,
            )
            if changed:
                await self._tell(tx, "CatalogPolicyAttached", caller, now_ms, warehouse_name, policy, sought, place)

        await f.meta.transact(work)

    async def detach(
        self, mutation: Mutation, warehouse_name: str, levels: Sequence[str], name: str, target: TargetName
    ) -> None:
        """Have a policy hold for a target no longer. Raises NoSuchPolicy, NoSuchTarget, NoSuchAttachment."""
        f, caller = self._f, mutation.caller
        home = await self._admitted(caller, warehouse_name, levels, name, target, Action.DETACH_POLICY)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._keys.keep(tx, mutation.key, Answer(204))
            policy = await self._policies.find(tx, await self._warehouses.find(tx, warehouse_name), home, name)
            sought, place = await self._target(tx, warehouse_name, target)
            if not await tx.run(rows.DETACH, sought.key, policy.id):
                raise NoSuchAttachment(f"the policy is not attached there: {policy}. target={place}")
            await self._tell(tx, "CatalogPolicyDetached", caller, now_ms, warehouse_name, policy, sought, place)

        await f.meta.transact(work)

    async def targets(
        self, caller: Caller, warehouse_name: str, levels: Sequence[str], name: str, *, after: str, limit: int
    ) -> TargetPage:
        """What a policy is attached to, dropped tables that can be restored too. Raises NoSuchPolicy."""
        policy = await self._policies.get(caller, warehouse_name, levels, name)
        found = await self._f.meta.rows(rows.TARGETS_OF, policy.id, after, limit + 1)
        return TargetPage([rows.target_from(row) for row in found[:limit]], len(found) > limit)

    async def applicable(
        self,
        caller: Caller,
        warehouse_name: str,
        target: TargetName,
        *,
        kind: str = "",
        action: Action | None = None,
    ) -> list[Applicable]:
        """The policies that hold for a target, and why; those of one type, if one is given.

        It takes the right to look at the target, or to do `action` to it, and none to policies.
        Raises NoSuchNamespace, NoSuchTable, InvalidInput for an unknown type.
        """
        sought = await self._seek(self._f.meta, warehouse_name, target)
        await self._check(caller, sought, action or _looking_at(target))
        if target.namespace and sought.namespace is None:
            raise no_such_namespace(target.namespace)
        if target.name and sought.entry is None:
            raise no_such_entry(Identifier(*target), EntryKind.TABLE)
        if kind:
            await self._types.stated(self._f.meta, sought.warehouse, kind)
        found = await applicable_to(self._f.meta, sought.warehouse.bucket.id, target.namespace, sought.entry)
        return [one for one in found if not kind or one.policy.type == kind]

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _admitted(
        self,
        caller: Caller,
        warehouse_name: str,
        levels: Sequence[str],
        name: str,
        target: TargetName,
        action: Action,
    ) -> Levels:
        """The namespace of a policy, if the caller may do `action` with it and to the target."""
        home = check_namespace(levels)
        check_policy_name(name)
        sought = await self._seek(self._f.meta, warehouse_name, target)
        policy = await self._policies.seek(self._f.meta, sought.warehouse, home, name)
        await self._policies.pass_gate(caller, sought.warehouse, home, policy, action)
        await self._check(caller, sought, action)
        return home

    async def _check(self, caller: Caller, sought: _Sought, action: Action) -> None:
        namespace, name = sought.name
        await self._gate.check(caller, sought.warehouse, action, namespace=namespace, name=name, entry=sought.entry)

    async def _seek(self, reader: Reader, warehouse_name: str, target: TargetName) -> _Sought:
        """The target, as far as it is there. Raises NoSuchWarehouse."""
        if not target.namespace:
            return _Sought(target, await self._warehouses.find(reader, warehouse_name), None, None)
        sought = await self._entries.seek(reader, warehouse_name, Identifier(*target))
        return _Sought(target, sought.warehouse, sought.namespace, sought.live)

    async def _target(self, reader: Reader, warehouse_name: str, target: TargetName) -> tuple[_Sought, Place]:
        """The target, and where it is. Raises NoSuchTarget."""
        sought = await self._seek(reader, warehouse_name, target)
        place = sought.place
        if place is None:
            raise NoSuchTarget(f"Target does not exist: {'.'.join((*target.namespace, *filter(None, (target.name,))))}")
        return sought, place

    async def _confirm_only_one(self, tx: Transaction, policy: Policy, key: str, place: Place) -> None:
        """Return if the target has no other policy of an inheritable type. Raises AttachmentConflict."""
        if not policy.inheritable:
            return
        other = await tx.row(rows.OTHER_OF_TYPE, key, policy.type, policy.id)
        if other is not None:
            raise AttachmentConflict(
                f"the target has a policy of that type; detach it first. target={place} type={policy.type}"
                f" policy={rows.policy_from(other)}"
            )

    async def _tell(
        self,
        tx: Transaction,
        event: str,
        caller: Caller,
        now_ms: int,
        warehouse_name: str,
        policy: Policy,
        sought: _Sought,
        place: Place,
    ) -> None:
        entry_id = "" if sought.entry is None else sought.entry.id
        await tell_of_attachment(self._f.outbox, tx, event, caller, now_ms, warehouse_name, policy, place, entry_id)


def _looking_at(target: TargetName) -> Action:
    if target.name:
        return Action.GET_TABLE
    return Action.GET_NAMESPACE if target.namespace else Action.GET_TABLE_BUCKET
