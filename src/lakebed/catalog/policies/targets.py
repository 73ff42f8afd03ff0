"""Targets of policies, found by name: table buckets, namespaces, tables and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.errors import NoSuchTarget, NotAttachable, NotFound
from lakebed.governance.policies import AttachmentTarget, PolicyTargetKind, rows
from lakebed.meta.seam import Reader
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..entries import Entries, no_such_entry
from ..identifiers import Identifier, Levels, check_identifier, check_namespace
from ..model import Catalog, Entry, EntryKind, Namespace
from ..namespaces import no_such_namespace
from .applicable import entry_place

__all__ = ["CATALOG", "PolicyTargetLookup", "PolicyTargets", "TargetName", "existing_place", "read_action"]


class TargetName(NamedTuple):
    """The name of a target: a table or view, a namespace if there is no name, else the table bucket."""

    namespace: Levels = ()
    name: str = ""

    @classmethod
    def of(cls, namespace: Sequence[str] = (), name: str = "") -> TargetName:
        """The name from its parts. Raises InvalidName, InvalidInput."""
        if name:
            return cls(*check_identifier(namespace, name))
        return cls(check_namespace(namespace)) if namespace else cls()

    def __str__(self) -> str:
        return ".".join((*self.namespace, *filter(None, (self.name,)))) or "catalog"


CATALOG: Final = TargetName()


class PolicyTargetLookup(NamedTuple):
    """A target as found, for authorization: what of it is missing may be reported only after that."""

    name: TargetName
    catalog: Catalog
    namespace: Namespace | None
    entry: Entry | None

    @property
    def is_generic(self) -> bool:
        """Whether it is a generic table, to which policies do not apply."""
        return self.entry is not None and self.entry.kind is EntryKind.GENERIC_TABLE

    @property
    def place(self) -> AttachmentTarget | None:
        """The target, if it exists and can have policies."""
        if not self.name.namespace:
            return AttachmentTarget(PolicyTargetKind.CATALOG)
        if self.name.name:
            return None if self.entry is None or self.is_generic else entry_place(self.name.namespace, self.entry)
        return None if self.namespace is None else AttachmentTarget(PolicyTargetKind.NAMESPACE, self.name.namespace)

    @property
    def missing(self) -> NotFound | None:
        """The error for a read of a target that does not exist; None if it does."""
        if self.name.namespace and self.namespace is None:
            return no_such_namespace(self.name.namespace)
        if self.name.name and self.place is None:
            return no_such_entry(Identifier(*self.name), EntryKind.TABLE)
        return None

    @property
    def entry_id(self) -> str:
        """The id of a table or view, else empty."""
        return "" if self.entry is None else self.entry.id

    @property
    def key(self) -> str:
        """The key of its attachments."""
        if self.entry is not None:
            return rows.entry_key(self.entry.id)
        if self.namespace is not None and not self.name.name:
            return rows.namespace_key(self.namespace.id)
        return rows.catalog_key(self.catalog.id)


class PolicyTargets:
    """Finds targets, and authorizes requests on them."""

    def __init__(self, authorizer: CatalogAuthorizer, catalogs: CatalogService, entries: Entries) -> None:
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries

    async def look_up(self, reader: Reader, catalog_name: str, target: TargetName) -> PolicyTargetLookup:
        """The target, as far as it exists. Raises NoSuchCatalog."""
        if not target.namespace:
            return PolicyTargetLookup(target, await self._catalogs.find(reader, catalog_name), None, None)
        lookup = await self._entries.look_up(reader, catalog_name, Identifier(*target))
        return PolicyTargetLookup(target, lookup.catalog, lookup.namespace, lookup.live)

    async def find(
        self, reader: Reader, catalog_name: str, target: TargetName
    ) -> tuple[PolicyTargetLookup, AttachmentTarget]:
        """The target and its place, after authorization. Raises NoSuchTarget, NotAttachable."""
        lookup = await self.look_up(reader, catalog_name, target)
        return lookup, existing_place(lookup)

    async def check(self, caller: Caller, lookup: PolicyTargetLookup, action: Action) -> None:
        """Check the permission for `action` on the target. Raises AccessDenied."""
        namespace, name = lookup.name
        await self._authorizer.check(caller, lookup.catalog, action, namespace=namespace, name=name, entry=lookup.entry)


def existing_place(lookup: PolicyTargetLookup) -> AttachmentTarget:
    """The place of an existing target. Raises NoSuchTarget, NotAttachable."""
    if lookup.is_generic:
        raise NotAttachable(f"policies cannot be attached to generic tables. target={lookup.name}")
    place = lookup.place
    if place is None:
        raise NoSuchTarget(f"Target does not exist: {lookup.name}")
    return place


def read_action(target: TargetName) -> Action:
    """The action that reads a target."""
    if target.name:
        return Action.GET_TABLE
    return Action.GET_NAMESPACE if target.namespace else Action.GET_TABLE_BUCKET
