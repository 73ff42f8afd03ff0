"""Policy coverage: which tables have no policy, and a preview of what attaching or detaching one would change.

Read-only. Results contain only tables and views that the caller can read; a page ends after a number of examined
entries, with or without results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.governance.policies import AttachedPolicy, AttachmentTarget, EffectivePolicyChange, Policy, policy_effects
from lakebed.governance.policies import rows as policy_rows
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..entries import LiveEntry, live_entry_from
from ..identifiers import SEPARATOR, Levels, check_namespace, path_of
from ..model import Catalog, EntryKind
from ..namespaces import no_such_namespace
from .applicable import Attached, entry_place, read_attached
from .attachments import PolicyAttachments, not_attached
from .policies import PolicyManagement
from .policy_types import PolicyTypes
from .targets import PolicyTargetLookup, PolicyTargets, TargetName, existing_place, read_action

__all__ = ["AffectedEntry", "AttachmentChange", "EffectPage", "PageProgress", "PolicyCoverage", "UncoveredPage"]

_ENTRIES_A_STEP: Final = 500
_MAX_EXAMINED: Final = 10_000
"""How many tables and views are examined for one page."""


class AttachmentChange(StrEnum):
    """The change that a preview is about."""

    ATTACH = "attach"
    DETACH = "detach"


class PageProgress(NamedTuple):
    """The progress of a page."""

    examined: int
    """The number of examined entries that the caller can read."""
    last_id: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class UncoveredPage:
    """Tables to which no policy applies."""

    tables: list[LiveEntry]
    progress: PageProgress


class AffectedEntry(NamedTuple):
    """A table or view that the change affects."""

    place: AttachmentTarget
    effects: Sequence[EffectivePolicyChange]


@dataclass(frozen=True, slots=True)
class EffectPage:
    """The effects of a change on tables and views."""

    policy: Policy
    place: AttachmentTarget
    """The target of the change."""
    affected: list[AffectedEntry]
    progress: PageProgress


class _Scope(NamedTuple):
    """A part of a catalog: all of it, a namespace with its contents, or one table or view."""

    catalog: Catalog
    namespace: Levels = ()
    entry: str = ""


_Take = Callable[[LiveEntry], bool]
"""Examines a table or view; whether it is part of the result."""

_Classifier = Callable[[Attached], _Take]
"""Creates one for the attachments of a page."""


class PolicyCoverage:
    """The use cases of policy coverage."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        types: PolicyTypes,
        policies: PolicyManagement,
        targets: PolicyTargets,
        attaching: PolicyAttachments,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._types = types
        self._policies = policies
        self._targets = targets
        self._attaching = attaching

    async def uncovered(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str] = (),
        *,
        kind: str = "",
        after: str = "",
        limit: int = 100,
    ) -> UncoveredPage:
        """Tables of a catalog or namespace to which no policy applies, or none of a type.

        Raises NoSuchNamespace, InvalidInput for an unknown type.
        """
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        namespace = check_namespace(levels) if levels else ()
        await self._authorizer.check(caller, catalog, Action.LIST_TABLES, namespace=namespace, kind=EntryKind.TABLE)
        if namespace and await self._f.meta.row(rows.NAMESPACE, catalog.id, path_of(namespace)) is None:
            raise no_such_namespace(namespace)
        if kind:
            await self._types.stated(self._f.meta, catalog, kind)
        found: list[LiveEntry] = []

        def classify(attached: Attached) -> _Take:
            def take(known: LiveEntry) -> bool:
                held = attached.applicable_to(known.namespace.levels, known.entry)
                if any(not kind or one.policy.type == kind for one in held):
                    return False
                found.append(known)
                return True

            return take

        tables = frozenset({EntryKind.TABLE})
        progress = await self._scan(caller, _Scope(catalog, namespace), tables, classify, after, limit)
        return UncoveredPage(found, progress)

    async def effect(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str],
        name: str,
        target: TargetName,
        change: AttachmentChange,
        *,
        after: str = "",
        limit: int = 100,
    ) -> EffectPage:
        """The tables and views whose applicable policies would change if this one were attached or detached.

        Raises the errors of the change itself: NoSuchPolicy, NoSuchTarget, NotAttachable, AttachmentConflict,
        NoSuchAttachment. Requires permission to read the policy and the target.
        """
        meta = self._f.meta
        policy = await self._policies.get(caller, catalog_name, levels, name)
        lookup = await self._targets.look_up(meta, catalog_name, target)
        await self._targets.check(caller, lookup, read_action(target))
        place = existing_place(lookup)
        if change is AttachmentChange.ATTACH:
            await self._attaching.confirm_attachable(meta, lookup.catalog, policy, lookup, place)
        elif await meta.row(policy_rows.IS_ATTACHED, lookup.key, policy.id) is None:
            raise not_attached(policy, place)
        affected: list[AffectedEntry] = []

        def classify(attached: Attached) -> _Take:
            assumed = _assuming(attached, lookup, policy, change)

            def take(known: LiveEntry) -> bool:
                around = known.namespace.levels
                before, then = attached.applicable_to(around, known.entry), assumed.applicable_to(around, known.entry)
                effects = policy_effects(before, then)
                if effects:
                    affected.append(AffectedEntry(entry_place(around, known.entry), effects))
                return bool(effects)

            return take

        scope = _Scope(lookup.catalog, target.namespace, lookup.entry_id)
        both = frozenset({EntryKind.TABLE, EntryKind.VIEW})
        return EffectPage(policy, place, affected, await self._scan(caller, scope, both, classify, after, limit))

    async def _scan(
        self, caller: Caller, scope: _Scope, kinds: frozenset[EntryKind], classify: _Classifier, after: str, limit: int
    ) -> PageProgress:
        """Examine the entries of a scope that the caller can read, by id, until the page is full."""
        meta = self._f.meta
        containers = await read_attached(meta, scope.catalog.id)
        scanned = examined = taken = 0
        while page := await self._page(scope, after):
            take = classify(await containers.with_entries(meta, page[0].entry.id, page[-1].entry.id))
            for known in page:
                if taken == limit or scanned == _MAX_EXAMINED:
                    return PageProgress(examined, after, truncated=True)
                scanned += 1
                after = known.entry.id
                if known.entry.kind in kinds and await self._can_read(caller, known):
                    examined += 1
                    taken += take(known)
        return PageProgress(examined, after, truncated=False)

    async def _page(self, scope: _Scope, after: str) -> list[LiveEntry]:
        meta, catalog = self._f.meta, scope.catalog.id
        if scope.entry:
            found = await meta.rows(rows.ENTRY_BY_ID, scope.entry) if after < scope.entry else []
        elif scope.namespace:
            path = path_of(scope.namespace)
            inside = path + SEPARATOR
            found = await meta.rows(
                rows.GOVERNED_IN_NAMESPACE_AFTER, catalog, path, inside, successor(inside), after, _ENTRIES_A_STEP
            )
        else:
            found = await meta.rows(rows.GOVERNED_IN_CATALOG_AFTER, catalog, after, _ENTRIES_A_STEP)
        return [live_entry_from(row) for row in found]

    async def _can_read(self, caller: Caller, known: LiveEntry) -> bool:
        return await self._authorizer.allows(
            caller, known.catalog, Action.GET_TABLE, namespace=known.namespace.levels, entry=known.entry
        )


def _assuming(attached: Attached, lookup: PolicyTargetLookup, policy: Policy, change: AttachmentChange) -> Attached:
    """The attachments after the change."""
    others = [one for one in attached.attachments.get(lookup.key, ()) if one.policy.id != policy.id]
    there = [*others, AttachedPolicy(policy)] if change is AttachmentChange.ATTACH else others
    return attached.assuming(lookup.key, there, None if lookup.entry is not None else lookup.namespace)
