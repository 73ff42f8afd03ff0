"""The services of policies on a catalog with a fixed clock, and helpers to call them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.catalog.events import CatalogEvent, decode_event
from lakebed.catalog.idempotency import Mutation, RequestKey
from lakebed.catalog.policies.attachments import CATALOG, PolicyAttachments, TargetName
from lakebed.catalog.policies.coverage import PolicyCoverage
from lakebed.catalog.policies.policies import NewPolicy, PolicyManagement
from lakebed.catalog.policies.policy_types import PolicyTypes
from lakebed.catalog.policies.targets import PolicyTargets
from lakebed.core.unset import Unset
from lakebed.governance.policies import Policy, PolicyType, define_type
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness
from tests.objects.stores import ROOT

COMPACTION = "system.data-compaction"
EXPIRY = "system.snapshot-expiry"
ON = '{"enable": true}'
OFF = '{"enable": false}'

NS = TargetName.of(["ns"])
TABLE = TargetName.of(["ns"], "t")
VIEW = TargetName.of(["ns"], "v")

UseCase = Callable[[Caller], Awaitable[object]]
"""A call of a use case."""

__all__ = [
    "CATALOG",
    "COMPACTION",
    "EXPIRY",
    "NS",
    "OFF",
    "ON",
    "TABLE",
    "VIEW",
    "PolicyHarness",
    "UseCase",
    "wire_policies",
]


@dataclass(frozen=True, slots=True)
class PolicyHarness:
    """The use cases, and helpers that call them as root, on `lake` and in `ns`."""

    catalog: CatalogHarness
    types: PolicyTypes
    policies: PolicyManagement
    attachments: PolicyAttachments
    coverage: PolicyCoverage

    async def create(
        self,
        name: str = "p",
        kind: str = COMPACTION,
        content: str | None = ON,
        *,
        namespace: Sequence[str] = ("ns",),
        description: str | None = None,
        caller: Caller = ROOT,
        key: RequestKey | None = None,
    ) -> Policy:
        """Create a policy."""
        request = NewPolicy(name, kind, content, description)
        return await self.policies.create(Mutation(caller, key), "lake", namespace, request, shown)

    async def update(
        self,
        name: str = "p",
        content: str | Unset | None = OFF,
        *,
        version: int = 0,
        description: str | Unset | None = None,
        caller: Caller = ROOT,
        key: RequestKey | None = None,
    ) -> Policy:
        """Update a policy."""
        return await self.policies.update(
            Mutation(caller, key),
            "lake",
            ["ns"],
            name,
            description=description,
            content=content,
            current_version=version,
            show=shown,
        )

    async def get(self, name: str = "p", caller: Caller = ROOT) -> Policy:
        """Load a policy."""
        return await self.policies.get(caller, "lake", ["ns"], name)

    async def drop(self, name: str = "p", *, detach_all: bool = False, caller: Caller = ROOT) -> None:
        """Drop a policy."""
        await self.policies.drop(Mutation(caller), "lake", ["ns"], name, detach_all=detach_all)

    async def attach(
        self,
        name: str = "p",
        target: TargetName = TABLE,
        parameters: Mapping[str, str] | None = None,
        *,
        caller: Caller = ROOT,
        key: RequestKey | None = None,
    ) -> None:
        """Attach a policy of `ns`."""
        await self.attachments.attach(Mutation(caller, key), "lake", ["ns"], name, target, parameters or {})

    async def detach(self, name: str = "p", target: TargetName = TABLE, *, caller: Caller = ROOT) -> None:
        """Detach it."""
        await self.attachments.detach(Mutation(caller), "lake", ["ns"], name, target)

    async def applicable(self, target: TargetName = TABLE, kind: str = "") -> list[tuple[str, str, bool]]:
        """Names of the applicable policies, their targets, and whether they are inherited."""
        found = await self.attachments.applicable(ROOT, "lake", target, kind=kind)
        return [(one.policy.name, str(one.target), one.inherited) for one in found]

    async def define(self, name: str = "user.note", schema: Any = None, **more: Any) -> PolicyType:
        """Define a policy type."""
        made = define_type(name, {} if schema is None else schema, **more)
        return await self.types.create(Mutation(ROOT), "lake", made, lambda _: b"{}")

    async def targets(self, name: str = "p") -> list[str]:
        """The targets of a policy."""
        page = await self.attachments.targets(ROOT, "lake", ["ns"], name, after="", limit=1000)
        return [str(target.target) for target in page.items]

    async def events(self, after: int) -> list[tuple[str, CatalogEvent]]:
        """The policy events after an event."""
        return [
            (entry.event.kind, decode_event(entry.event.payload))
            for entry in await self.catalog.store.events(after)
            if entry.event.kind.startswith("CatalogPolicy")
        ]


def shown(policy: Policy) -> bytes:
    """A policy, for stored responses."""
    return f"{policy} v{policy.version}".encode()


def wire_policies(catalog: CatalogHarness) -> PolicyHarness:
    """The services on a catalog, wired like `server.catalog`."""
    f = catalog.store.object_context
    types = PolicyTypes(f, catalog.authorizer, catalog.catalogs, catalog.keys)
    policies = PolicyManagement(f, catalog.authorizer, catalog.catalogs, catalog.namespaces, catalog.keys, types)
    targets = PolicyTargets(catalog.authorizer, catalog.catalogs, catalog.entries)
    attachments = PolicyAttachments(f, catalog.catalogs, catalog.keys, types, policies, targets)
    coverage = PolicyCoverage(f, catalog.authorizer, catalog.catalogs, types, policies, targets, attachments)
    return PolicyHarness(catalog, types, policies, attachments, coverage)
