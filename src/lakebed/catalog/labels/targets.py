"""Looks up what labels are attached to, and authorizes callers to read or change them.

Labels require the same permissions as properties. For catalogs and their contents the bucket's policy applies; users
and roles belong to the server.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.access import ResourceRules, Securable
from lakebed.core.errors import InvalidInput, NoSuchPolicy, NoSuchPrincipal, NotFound
from lakebed.governance.labels import LabelKind, LabelSubject
from lakebed.governance.policies import check_policy_name
from lakebed.governance.principals import find_user
from lakebed.governance.rbac import (
    OPERATIONS,
    SERVICE,
    GrantKind,
    catalog_securable,
    entry_securable,
    namespace_securable,
    policy_securable,
)
from lakebed.governance.rbac import rows as role_rows
from lakebed.governance.rbac.model import ROOT
from lakebed.governance.rbac.principal_roles import find_principal_role
from lakebed.meta.seam import Reader
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..entries import Entries, no_such_entry
from ..identifiers import Identifier, check_identifier, check_namespace
from ..model import Catalog, EntryKind
from ..namespaces import no_such_namespace
from ..policies.policies import PolicyManagement

ENTRY_KINDS: Final = {
    LabelKind.TABLE: EntryKind.TABLE,
    LabelKind.VIEW: EntryKind.VIEW,
    LabelKind.GENERIC_TABLE: EntryKind.GENERIC_TABLE,
}

_GRANT_KINDS: Final = {
    LabelKind.CATALOG: GrantKind.CATALOG,
    LabelKind.NAMESPACE: GrantKind.NAMESPACE,
    LabelKind.TABLE: GrantKind.TABLE,
    LabelKind.VIEW: GrantKind.VIEW,
    LabelKind.GENERIC_TABLE: GrantKind.TABLE,
    LabelKind.POLICY: GrantKind.POLICY,
}
"""Kinds with their own grants. Others require the privilege on the catalog, or on the service."""

_OPERATIONS: Final = {Action.GET_LABELS: "getLabels", Action.SET_LABELS: "setLabels"}


class LabelTarget(NamedTuple):
    """The target of labels, as far as it exists."""

    subject: LabelSubject
    catalog: Catalog | None = None
    """Its catalog, if it is in one."""
    securable: Securable = SERVICE
    """Its securable, or its parent's if it does not exist."""
    row_id: int | str | None = None
    entry: str = ""
    """The id of a table or view."""
    missing: NotFound | None = None
    """The error if it does not exist, to be raised after authorization."""


class LabelTargets:
    """Looks up targets of labels."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        entries: Entries,
        policies: PolicyManagement,
        account: str,
    ) -> None:
        """`account` is root's, which users and roles belong to."""
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries
        self._policies = policies
        self._rules = ResourceRules(owner=account)

    async def find(self, reader: Reader, subject: LabelSubject) -> LabelTarget:
        """The target with a name. Raises InvalidName, InvalidInput, NoSuchCatalog."""
        if subject.kind is LabelKind.PRINCIPAL:
            return await _principal(reader, subject)
        if subject.kind is LabelKind.PRINCIPAL_ROLE:
            return await _principal_role(reader, subject)
        if subject.kind in ENTRY_KINDS:
            return await self._entry(reader, subject)
        if subject.kind is LabelKind.POLICY:
            return await self._policy(reader, subject)
        if subject.kind is LabelKind.NAMESPACE:
            return await self._namespace(reader, subject)
        catalog = await self._catalogs.find(reader, subject.catalog)
        place = LabelTarget(subject, catalog, catalog_securable(catalog.id), catalog.id)
        if subject.kind is LabelKind.CATALOG:
            return place
        row = await reader.row(role_rows.CATALOG_ROLE, catalog.id, subject.name)
        if row is None:
            absent = NoSuchPrincipal(f"no such catalog role. catalog={subject.catalog} name={subject.name}")
            return place._replace(row_id=None, missing=absent)
        return place._replace(row_id=row[0])

    async def check(self, caller: Caller, place: LabelTarget, action: Action) -> None:
        """Check permission to read or change a target's labels. Raises AccessDenied."""
        subject, kind = place.subject, place.subject.kind
        if place.catalog is None:
            needs = OPERATIONS[f"{_OPERATIONS[action]} {kind}"].target
            await self._f.authorize_resource(
                caller, self._rules, action, "*", securable=place.securable, privileges=needs
            )
            return
        await self._authorizer.check(
            caller,
            place.catalog,
            action,
            namespace=subject.namespace,
            name=subject.name if kind in ENTRY_KINDS else "",
            entry_id=place.entry,
            kind=_GRANT_KINDS.get(kind),
            privileges=None if kind in _GRANT_KINDS else OPERATIONS[f"{_OPERATIONS[action]} {kind}"].target,
            securable=place.securable,
        )

    async def _namespace(self, reader: Reader, subject: LabelSubject) -> LabelTarget:
        levels = check_namespace(subject.namespace)
        lookup = await self._entries.look_up(reader, subject.catalog, Identifier(levels, ""))
        place = LabelTarget(subject, lookup.catalog, namespace_securable(lookup.catalog.id, levels))
        if lookup.namespace is None:
            return place._replace(missing=no_such_namespace(levels))
        return place._replace(row_id=lookup.namespace.id)

    async def _entry(self, reader: Reader, subject: LabelSubject) -> LabelTarget:
        identifier = check_identifier(subject.namespace, subject.name)
        lookup = await self._entries.look_up(reader, subject.catalog, identifier)
        catalog_id, kind, entry = lookup.catalog.id, ENTRY_KINDS[subject.kind], lookup.live
        if entry is None or entry.kind is not kind:
            around = namespace_securable(catalog_id, identifier.namespace)
            return LabelTarget(subject, lookup.catalog, around, missing=no_such_entry(identifier, kind))
        on = entry_securable(catalog_id, identifier.namespace, entry.id)
        return LabelTarget(subject, lookup.catalog, on, entry.id, entry.id)

    async def _policy(self, reader: Reader, subject: LabelSubject) -> LabelTarget:
        levels = check_namespace(subject.namespace)
        check_policy_name(subject.name)
        catalog = await self._catalogs.find(reader, subject.catalog)
        policy = await self._policies.look_up(reader, catalog, levels, subject.name)
        catalog_id = catalog.id
        if policy is None:
            absent = NoSuchPolicy(f"Policy does not exist: {'.'.join((*levels, subject.name))}")
            return LabelTarget(subject, catalog, namespace_securable(catalog_id, levels), missing=absent)
        return LabelTarget(subject, catalog, policy_securable(catalog_id, levels, policy.id), policy.id)


async def _principal(reader: Reader, subject: LabelSubject) -> LabelTarget:
    if subject.name == ROOT:
        raise InvalidInput("root is configured in the settings and has no labels", argument="name", value=ROOT)
    try:
        return LabelTarget(subject, row_id=(await find_user(reader, subject.name)).user_id)
    except NoSuchPrincipal as error:
        return LabelTarget(subject, missing=error)


async def _principal_role(reader: Reader, subject: LabelSubject) -> LabelTarget:
    try:
        return LabelTarget(subject, row_id=(await find_principal_role(reader, subject.name)).id)
    except NoSuchPrincipal as error:
        return LabelTarget(subject, missing=error)
