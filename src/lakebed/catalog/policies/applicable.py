"""Which policies apply where, read from the store: for one target, or for pages of tables in a table bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.governance.policies import (
    AttachedPolicy,
    AttachmentTarget,
    EffectivePolicy,
    InheritanceLevel,
    PolicyTargetKind,
    resolve_policies,
    rows,
)
from lakebed.meta.seam import Reader, Row
from lakebed.meta.sql_text import padded_batches

from ..identifiers import Levels, path_of
from ..model import Entry, EntryKind, Namespace

__all__ = ["Attached", "applicable_to", "entry_place", "read_attached"]

_Attachments = Mapping[str, Sequence[AttachedPolicy]]

_KINDS = {EntryKind.TABLE: PolicyTargetKind.TABLE, EntryKind.VIEW: PolicyTargetKind.VIEW}


def entry_place(levels: Levels, entry: Entry) -> AttachmentTarget:
    """A table or view as a target of policies."""
    return AttachmentTarget(_KINDS[entry.kind], (*levels, entry.name))


async def applicable_to(
    reader: Reader, catalog: int, levels: Levels = (), entry: Entry | None = None
) -> list[EffectivePolicy]:
    """The policies that apply to a catalog, a namespace, or a table or view. Two statements."""
    paths = [path_of(levels[:depth]) for depth in range(1, len(levels) + 1)]
    ids: dict[str, int] = {}
    for batch in padded_batches(paths, rows.TARGETS_BATCH):
        ids.update(await reader.rows(rows.NAMESPACE_IDS, catalog, *batch))
    keys = [rows.catalog_key(catalog), *(rows.namespace_key(ids[path]) for path in paths if path in ids)]
    if entry is not None:
        keys.append(rows.entry_key(entry.id))
    attached: dict[str, list[AttachedPolicy]] = {}
    for batch in padded_batches(keys, rows.TARGETS_BATCH):
        _gather(attached, await reader.rows(rows.ATTACHED_TO, *batch))
    return resolve_policies(_way(attached, catalog, ids, levels, entry))


@dataclass(frozen=True, slots=True)
class Attached:
    """All attachments of a catalog and its namespaces, and those of some tables and views.

    Read once for many tables.
    """

    catalog: int
    namespaces: Mapping[str, int]
    """Ids of namespaces that policies are attached to, by path."""
    attachments: _Attachments

    def assuming(self, key: str, attached: Sequence[AttachedPolicy], namespace: Namespace | None = None) -> Attached:
        """The same, assuming that exactly these are attached to a target; `namespace` is the target, if it is one."""
        namespaces = self.namespaces if namespace is None else {**self.namespaces, namespace.path: namespace.id}
        return replace(self, namespaces=namespaces, attachments={**self.attachments, key: attached})

    async def with_entries(self, reader: Reader, first: str, last: str) -> Attached:
        """The same, and what is attached to the entries with ids from `first` to `last`. One statement."""
        of_entries: dict[str, list[AttachedPolicy]] = {}
        _gather(of_entries, await reader.rows(rows.ATTACHED_TO_ENTRIES, self.catalog, first, last))
        return replace(self, attachments={**self.attachments, **of_entries})

    def applicable_to(self, levels: Levels, entry: Entry | None = None) -> list[EffectivePolicy]:
        """The policies that apply to a namespace, or to a table or view whose attachments were read."""
        return resolve_policies(_way(self.attachments, self.catalog, self.namespaces, levels, entry))


async def read_attached(reader: Reader, catalog: int) -> Attached:
    """The attachments of a catalog and its namespaces. Two statements."""
    attached: dict[str, list[AttachedPolicy]] = {}
    _gather(attached, await reader.rows(rows.ATTACHED_TO_CONTAINERS, catalog))
    namespaces = await reader.rows(rows.NAMESPACES_WITH_POLICIES, catalog)
    return Attached(catalog, dict(namespaces), attached)


def _gather(attached: dict[str, list[AttachedPolicy]], found: Iterable[Row]) -> None:
    for row in found:
        key, attachment = rows.attachment_from(row)
        attached.setdefault(key, []).append(attachment)


def _way(
    attached: _Attachments, catalog: int, ids: Mapping[str, int], levels: Levels, entry: Entry | None
) -> list[InheritanceLevel]:
    """The levels from the catalog down to the target, with the attachments of each."""
    way = [InheritanceLevel(AttachmentTarget(PolicyTargetKind.CATALOG), attached.get(rows.catalog_key(catalog), ()))]
    for depth in range(1, len(levels) + 1):
        namespace = ids.get(path_of(levels[:depth]))
        here = () if namespace is None else attached.get(rows.namespace_key(namespace), ())
        way.append(InheritanceLevel(AttachmentTarget(PolicyTargetKind.NAMESPACE, levels[:depth]), here))
    if entry is not None:
        way.append(InheritanceLevel(entry_place(levels, entry), attached.get(rows.entry_key(entry.id), ())))
    return way
