"""One target of each kind that can have labels, and helpers that label them as root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.labels.service import LabelledSubject, LabelManagement
from lakebed.catalog.labels.targets import LabelTargets
from lakebed.catalog.tables.generic_tables import GenericTables, NewGenericTable
from lakebed.core.access import DEFAULT_ACCOUNT
from lakebed.core.unset import UNSET, Unset
from lakebed.governance.labels import LabelChange, LabelKind, LabelOwner, LabelQuery, Labels, LabelSubject, OwnerKind
from lakebed.governance.labels import parse_tag_filter as tag
from lakebed.governance.labels.events import LabelEvent
from lakebed.governance.principals import Principals
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalog_roles import CatalogRoles
from lakebed.governance.rbac.principal_roles import PrincipalRoles
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness
from tests.catalog.policies.policy_catalog import PolicyHarness, wire_policies
from tests.objects.stores import ROOT

K = LabelKind
ANN = LabelOwner(OwnerKind.PRINCIPAL, "ann")
TEAM = LabelOwner(OwnerKind.PRINCIPAL_ROLE, "team")
ROOT_OWNER = LabelOwner(OwnerKind.PRINCIPAL, "root")

SUBJECTS = {
    K.CATALOG: LabelSubject(K.CATALOG, "lake"),
    K.NAMESPACE: LabelSubject(K.NAMESPACE, "lake", ("ns",)),
    K.TABLE: LabelSubject(K.TABLE, "lake", ("ns",), "t"),
    K.VIEW: LabelSubject(K.VIEW, "lake", ("ns",), "v"),
    K.GENERIC_TABLE: LabelSubject(K.GENERIC_TABLE, "lake", ("ns",), "g"),
    K.POLICY: LabelSubject(K.POLICY, "lake", ("ns",), "p"),
    K.CATALOG_ROLE: LabelSubject(K.CATALOG_ROLE, "lake", name="reader"),
    K.PRINCIPAL: LabelSubject(K.PRINCIPAL, name="ann"),
    K.PRINCIPAL_ROLE: LabelSubject(K.PRINCIPAL_ROLE, name="team"),
}
TABLE = SUBJECTS[K.TABLE]


@dataclass(frozen=True, slots=True)
class LabelHarness:
    """A catalog with one target of each kind."""

    catalog: CatalogHarness
    policing: PolicyHarness
    generic_tables: GenericTables
    labelling: LabelManagement
    principals: Principals
    principal_roles: PrincipalRoles
    catalog_roles: CatalogRoles
    by: Administrator

    async def label(
        self,
        subject: LabelSubject = TABLE,
        *,
        remove: Sequence[str] = (),
        owner: LabelOwner | Unset | None = UNSET,
        caller: Caller = ROOT,
        **tags: str,
    ) -> Labels:
        """Change labels."""
        return await self.labelling.change(caller, subject, LabelChange(tags, remove, owner))

    async def labels(self, subject: LabelSubject = TABLE, caller: Caller = ROOT) -> Labels:
        """The labels of a target."""
        return await self.labelling.get(caller, subject)

    async def find(self, *tags: str, caller: Caller = ROOT, limit: int = 100, **more: object) -> list[LabelledSubject]:
        """All search results, page by page."""
        query = LabelQuery([tag(one) for one in tags], **more)  # type: ignore[arg-type]  # what else a query says
        found: list[LabelledSubject] = []
        after = ""
        while True:
            page = await self.labelling.find(caller, query, after=after, limit=limit)
            assert len(page.found) <= limit
            found += page.found
            if not page.truncated:
                return found
            after = page.last_key

    async def found(self, *tags: str, caller: Caller = ROOT, limit: int = 100, **more: object) -> set[str]:
        """The same by kind and name."""
        return {
            f"{one.subject.kind} {one.subject}" for one in await self.find(*tags, caller=caller, limit=limit, **more)
        }

    async def events(self, after: int) -> list[LabelEvent]:
        """The label events after an event."""
        events = [entry.event for entry in await self.catalog.store.events(after)]
        return [
            msgspec.msgpack.decode(event.payload, type=LabelEvent) for event in events if event.kind == "LabelsChanged"
        ]


async def open_label_harness(catalog: CatalogHarness) -> LabelHarness:
    """Create one target of each kind, named as in `SUBJECTS`."""
    f = catalog.store.object_context
    policing = wire_policies(catalog)
    places = LabelTargets(f, catalog.authorizer, catalog.catalogs, catalog.entries, policing.policies, DEFAULT_ACCOUNT)
    harness = LabelHarness(
        catalog,
        policing,
        GenericTables(f, catalog.authorizer, catalog.entries, catalog.keys, catalog.claims),
        LabelManagement(f, catalog.catalogs, places),
        Principals(f.meta, f.outbox, f.clock, ROOT.principal),
        PrincipalRoles(f.meta, f.outbox, f.clock),
        CatalogRoles(f.meta, f.outbox, f.clock),
        catalog.administrator(),
    )
    await _clear(harness)
    await catalog.create("t")
    await catalog.create_view("v")
    await harness.generic_tables.create(Mutation(ROOT), "lake", ("ns",), NewGenericTable("g", "delta"))
    await policing.create()
    await harness.catalog_roles.create(harness.by, "lake", "reader", properties={})
    await harness.principals.create_user("ann")
    await harness.principal_roles.create(harness.by, "team", properties={})
    return harness


async def _clear(harness: LabelHarness) -> None:
    """Delete users and roles of a reused store."""
    meta = harness.catalog.store.meta

    async def work(tx: object) -> None:
        await tx.run("DELETE FROM principals WHERE name = 'ann'")  # type: ignore[attr-defined]  # a transaction
        await tx.run("DELETE FROM principal_roles WHERE name = 'team'")  # type: ignore[attr-defined]

    await meta.transact(work)
