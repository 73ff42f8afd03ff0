"""Labels: read, change and search. A change commits with its event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.errors import AccessDenied, NoSuchCatalog, NotFound
from lakebed.governance.labels import (
    LabelChange,
    LabelOwner,
    LabelQuery,
    Labels,
    LabelSubject,
    OwnerKind,
    apply_change,
    rows,
)
from lakebed.governance.labels.events import append_labels_event
from lakebed.governance.labels.rows import LabelledRow
from lakebed.governance.principals import find_user
from lakebed.governance.rbac import (
    SERVICE,
    catalog_securable,
    entry_securable,
    namespace_securable,
    policy_securable,
)
from lakebed.governance.rbac.model import ROOT
from lakebed.governance.rbac.principal_roles import find_principal_role
from lakebed.meta.seam import Reader, Transaction, Value
from lakebed.meta.sql_text import padded_batches
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action
from ..catalogs.service import CatalogService
from ..model import Catalog
from .targets import LabelTarget, LabelTargets

__all__ = ["LabelManagement", "LabelPage", "LabelledSubject"]

_MAX_EXAMINED: Final = 10_000
"""Maximum number of labelled targets examined for one page."""


class LabelledSubject(NamedTuple):
    """A target and its labels."""

    subject: LabelSubject
    labels: Labels


@dataclass(frozen=True, slots=True)
class LabelPage:
    """One page of search results."""

    found: list[LabelledSubject]
    last_key: str
    """The key after which the next page starts."""
    truncated: bool


class LabelManagement:
    """The use cases of labels."""

    def __init__(self, object_context: ObjectContext, catalogs: CatalogService, targets: LabelTargets) -> None:
        self._f = object_context
        self._catalogs = catalogs
        self._targets = targets

    async def get(self, caller: Caller, subject: LabelSubject) -> Labels:
        """The labels of a target. Raises the NotFound of its kind."""
        meta = self._f.meta
        key = await self._authorized(meta, caller, subject, Action.GET_LABELS)
        return await _labels(meta, key)

    async def change(self, caller: Caller, subject: LabelSubject, change: LabelChange) -> Labels:
        """Set and remove tags, and set the owner; returns the resulting labels. Equal values are no change.

        Raises the NotFound of its kind, NoSuchPrincipal for an owner that does not exist, InvalidInput.
        """
        f = self._f
        await self._authorized(f.meta, caller, subject, Action.SET_LABELS)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Labels:
            target = await self._targets.find(tx, subject)
            row_id = _present(target)
            key = rows.label_key(subject.kind, row_id)
            before = await _labels(tx, key)
            after = apply_change(before, change)
            if after == before:
                return after
            await _store(tx, key, target, row_id, before, after)
            await append_labels_event(f.outbox, tx, subject, before, after, caller.principal, now_ms)
            return after

        return await f.meta.transact(work)

    async def find(self, caller: Caller, query: LabelQuery, *, after: str = "", limit: int = 100) -> LabelPage:
        """Targets with matching labels that the caller can read."""
        catalogs: dict[str, Catalog | None] = {}
        found: list[LabelledSubject] = []
        examined = 0
        while page := await self._page(query, after):
            tags = await self._tags([one.key for one in page])
            for one in page:
                if len(found) == limit or examined == _MAX_EXAMINED:
                    return LabelPage(found, after, truncated=True)
                examined += 1
                after = one.key
                labels = Labels(tags.get(one.key, {}), one.owner)
                if _fits(query, labels) and await self._can_read(caller, one, catalogs):
                    found.append(LabelledSubject(one.subject, labels))
        return LabelPage(found, after, truncated=False)

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _authorized(self, reader: Reader, caller: Caller, subject: LabelSubject, action: Action) -> str:
        """The key of a target, if the caller has the permission for `action` on its labels."""
        target = await self._targets.find(reader, subject)
        await self._targets.check(caller, target, action)
        return rows.label_key(subject.kind, _present(target))

    async def _page(self, query: LabelQuery, after: str) -> list[LabelledRow]:
        statement, lookup = _statement(query)
        kind = query.kind or ""
        found = await self._f.meta.rows(
            statement, *lookup, kind, kind, query.catalog, query.catalog, after, rows.TAGS_BATCH
        )
        return [rows.labelled_from(row) for row in found]

    async def _tags(self, keys: Sequence[str]) -> dict[str, dict[str, str]]:
        tags: dict[str, dict[str, str]] = {}
        for batch in padded_batches(keys, rows.TAGS_BATCH):
            for key, name, value in await self._f.meta.rows(rows.TAGS_AMONG, *batch):
                tags.setdefault(key, {})[name] = value
        return tags

    async def _can_read(self, caller: Caller, one: LabelledRow, catalogs: dict[str, Catalog | None]) -> bool:
        target = await self._target(one, catalogs)
        if target is None:
            return False
        try:
            await self._targets.check(caller, target, Action.GET_LABELS)
        except AccessDenied:
            return False
        return True

    async def _target(self, one: LabelledRow, catalogs: dict[str, Catalog | None]) -> LabelTarget | None:
        """The target of a search result; None if its catalog was deleted since."""
        subject, catalog_id = one.subject, one.catalog
        if catalog_id is None:
            return LabelTarget(subject, None, SERVICE)
        if subject.catalog not in catalogs:
            try:
                catalogs[subject.catalog] = await self._catalogs.find_any(self._f.meta, subject.catalog)
            except NoSuchCatalog:
                catalogs[subject.catalog] = None
        catalog = catalogs[subject.catalog]
        if catalog is None:
            return None
        if one.entry is not None:
            return LabelTarget(
                subject, catalog, entry_securable(catalog_id, subject.namespace, one.entry), entry=one.entry
            )
        if one.policy is not None:
            return LabelTarget(subject, catalog, policy_securable(catalog_id, subject.namespace, one.policy))
        if subject.namespace:
            return LabelTarget(subject, catalog, namespace_securable(catalog_id, subject.namespace))
        return LabelTarget(subject, catalog, catalog_securable(catalog_id))


def _present(target: LabelTarget) -> int | str:
    """The id of an existing target. Raises the NotFound of its kind."""
    if target.missing is not None:
        raise target.missing
    if target.row_id is None:
        raise NotFound(f"label target does not exist: {target.subject}")
    return target.row_id


def _fits(query: LabelQuery, labels: Labels) -> bool:
    if query.owner is not None and labels.owner != query.owner:
        return False
    return all(one.matches(labels.tags) for one in query.tags)


def _statement(query: LabelQuery) -> tuple[str, tuple[Value, ...]]:
    """The most selective search, and its parameters; other conditions are checked afterwards."""
    exact = next((one for one in query.tags if one.value is not None), None)
    if exact is not None:
        return rows.WITH_TAG, (exact.key, exact.value)
    if query.owner is not None:
        if query.owner == LabelOwner(OwnerKind.PRINCIPAL, ROOT):
            return rows.OWNED_BY_ROOT, ()
        is_user = query.owner.kind is OwnerKind.PRINCIPAL
        return rows.OWNED_BY_PRINCIPAL if is_user else rows.OWNED_BY_ROLE, (query.owner.name,)
    if query.tags:
        return rows.WITH_TAG_KEY, (query.tags[0].key,)
    return rows.ALL_LABELLED, ()


async def _labels(reader: Reader, key: str) -> Labels:
    return rows.labels_from(await reader.row(rows.LABELLED, key), await reader.rows(rows.TAGS, key))


async def _store(
    tx: Transaction, key: str, target: LabelTarget, row_id: int | str, before: Labels, after: Labels
) -> None:
    if not after.tags and after.owner is None:
        await tx.run(rows.REMOVE_LABELLED, key)
        return
    kind = target.subject.kind
    owner = await _owner_columns(tx, after.owner)
    await tx.run(rows.SET_LABELLED, key, kind, *rows.reference(kind, row_id), *owner)
    for name in before.tags.keys() - after.tags.keys():
        await tx.run(rows.REMOVE_TAG, key, name)
    for name, value in after.tags.items():
        if before.tags.get(name) != value:
            await tx.run(rows.SET_TAG, key, name, value)


async def _owner_columns(reader: Reader, owner: LabelOwner | None) -> tuple[Value, ...]:
    """The owner as stored: a user, a role, or root. Raises NoSuchPrincipal."""
    if owner is None:
        return None, None, 0
    if owner.kind is OwnerKind.PRINCIPAL_ROLE:
        return None, (await find_principal_role(reader, owner.name)).id, 0
    if owner.name == ROOT:
        return None, None, 1
    return (await find_user(reader, owner.name)).user_id, None, 0
