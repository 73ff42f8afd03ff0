"""Audit of access delegation: vended credentials, remote signing, and the object accesses that used them."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.core.errors import NotFound
from lakebed.governance.delegation.delegated_accesses import AccessGroup, DelegatedAccess, DelegatedAccesses
from lakebed.governance.delegation.delegations import DelegationFilter, DelegationLog, DelegationRecord
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .log import READ_AUDIT


@dataclass(frozen=True, slots=True)
class TracedAccess:
    """An access with delegated permission, and the delegation."""

    access: DelegatedAccess
    delegation: DelegationRecord | None
    """None if the record was lost in a crash or is not written yet. The access names the principal too."""


class DelegationAudit:
    """Reads delegations and their accesses. Every method raises AccessDenied."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context
        self._delegations = DelegationLog(context.meta)
        self._accesses = DelegatedAccesses(context.meta)

    async def list_delegations(
        self, caller: Caller, criteria: DelegationFilter, *, before: int, limit: int
    ) -> list[DelegationRecord]:
        """Delegations that match, newest first, before a position."""
        await self._authorize(caller)
        return await self._delegations.list(criteria, before=before, limit=limit)

    async def get(self, caller: Caller, delegation_id: str) -> DelegationRecord:
        """One delegation. Raises NotFound."""
        await self._authorize(caller)
        return await self._delegations.find(delegation_id)

    async def of_delegation(
        self, caller: Caller, delegation_id: str, *, after: AccessGroup | None, limit: int
    ) -> list[TracedAccess]:
        """Accesses with one delegation, by bucket and object."""
        await self._authorize(caller)
        delegation = await self._found(delegation_id)
        found = await self._accesses.of_delegation(delegation_id, after=after, limit=limit)
        return [TracedAccess(access, delegation) for access in found]

    async def of_object(
        self, caller: Caller, bucket: str, key: str, *, after: AccessGroup | None, limit: int
    ) -> list[TracedAccess]:
        """Delegated accesses to one object."""
        await self._authorize(caller)
        found = await self._accesses.of_object(bucket, key, after=after, limit=limit)
        known = {name: await self._found(name) for name in {access.group.delegation for access in found}}
        return [TracedAccess(access, known[access.group.delegation]) for access in found]

    async def _found(self, delegation_id: str) -> DelegationRecord | None:
        try:
            return await self._delegations.find(delegation_id)
        except NotFound:
            return None

    async def _authorize(self, caller: Caller) -> None:
        await self._context.authorize_account(caller, READ_AUDIT, "*")
