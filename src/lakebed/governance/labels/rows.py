"""SQL statements of labels, and conversion of rows. The only module of this package that knows columns.

A labelled entity is a row of another table: each of `COLUMNS` refers to one by its id, and `label_key` combines kind
and id into the key that lookups use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from lakebed.meta.seam import Row, Value

from ..rbac.model import ROOT, levels_of
from .model import LabelKind, LabelOwner, Labels, LabelSubject, OwnerKind

COLUMNS: Final = ("catalog", "namespace", "entry", "policy", "catalog_role", "principal", "principal_role")

_COLUMN_OF: Final = {
    LabelKind.CATALOG: "catalog",
    LabelKind.NAMESPACE: "namespace",
    LabelKind.TABLE: "entry",
    LabelKind.VIEW: "entry",
    LabelKind.GENERIC_TABLE: "entry",
    LabelKind.POLICY: "policy",
    LabelKind.CATALOG_ROLE: "catalog_role",
    LabelKind.PRINCIPAL: "principal",
    LabelKind.PRINCIPAL_ROLE: "principal_role",
}

TAGS_BATCH: Final = 100
"""Number of subjects whose tags one statement reads."""

_MARKS: Final = ", ".join("?" for _ in range(TAGS_BATCH))

LABELLED: Final = (
    "SELECT l.owned_by_root, u.name, r.name FROM labelled l LEFT JOIN principals u ON u.user_id = l.owner_principal"
    " LEFT JOIN principal_roles r ON r.id = l.owner_role WHERE l.subject = ?"
)
SET_LABELLED: Final = (
    f"INSERT INTO labelled (subject, kind, {', '.join(COLUMNS)}, owner_principal, owner_role, owned_by_root)"  # noqa: S608  # constants only, here and below
    f" VALUES ({', '.join('?' for _ in range(len(COLUMNS) + 5))}) ON CONFLICT (subject) DO UPDATE SET"
    " owner_principal = excluded.owner_principal, owner_role = excluded.owner_role,"
    " owned_by_root = excluded.owned_by_root"
)
REMOVE_LABELLED: Final = "DELETE FROM labelled WHERE subject = ?"

TAGS: Final = "SELECT key, value FROM tags WHERE subject = ? ORDER BY key"
TAGS_AMONG: Final = f"SELECT subject, key, value FROM tags WHERE subject IN ({_MARKS}) ORDER BY subject, key"  # noqa: S608
SET_TAG: Final = (
    "INSERT INTO tags (subject, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (subject, key) DO UPDATE SET value = excluded.value"
)
REMOVE_TAG: Final = "DELETE FROM tags WHERE subject = ? AND key = ?"

# -- searching ----------------------------------------------------------------------------------------------------

_FOUND: Final = (
    "SELECT l.subject, l.kind, w.id, w.name, COALESCE(n.path, en.path, pn.path),"
    " COALESCE(e.name, p.name, c.name, u.name, r.name), l.entry, l.policy, l.owned_by_root, ou.name, ow.name"
    " FROM labelled l"
)
_NAMED: Final = (
    " LEFT JOIN namespaces n ON n.id = l.namespace"
    " LEFT JOIN entries e ON e.id = l.entry LEFT JOIN namespaces en ON en.id = e.namespace"
    " LEFT JOIN policies p ON p.id = l.policy LEFT JOIN namespaces pn ON pn.id = p.namespace"
    " LEFT JOIN catalog_roles c ON c.id = l.catalog_role"
    " LEFT JOIN warehouses w ON w.id = COALESCE(l.catalog, n.warehouse, e.warehouse, p.warehouse, c.catalog)"
    " LEFT JOIN principals u ON u.user_id = l.principal LEFT JOIN principal_roles r ON r.id = l.principal_role"
    " LEFT JOIN principals ou ON ou.user_id = l.owner_principal LEFT JOIN principal_roles ow ON ow.id = l.owner_role"
)
_REST: Final = (
    " AND (? = '' OR l.kind = ?) AND (? = '' OR w.name = ?) AND e.dropped_ms IS NULL"
    " AND l.subject > ? ORDER BY l.subject LIMIT ?"
)
"""Dropped tables that can be restored keep their labels but are not found."""

_TAGGED: Final = f"{_FOUND} JOIN tags t ON t.subject = l.subject{_NAMED}"
WITH_TAG: Final = f"{_TAGGED} WHERE t.key = ? AND t.value = ?{_REST}"
WITH_TAG_KEY: Final = f"{_TAGGED} WHERE t.key = ?{_REST}"
OWNED_BY_ROOT: Final = f"{_FOUND}{_NAMED} WHERE l.owned_by_root = 1{_REST}"
OWNED_BY_PRINCIPAL: Final = f"{_FOUND}{_NAMED} WHERE ou.name = ?{_REST}"
OWNED_BY_ROLE: Final = f"{_FOUND}{_NAMED} WHERE ow.name = ?{_REST}"
ALL_LABELLED: Final = f"{_FOUND}{_NAMED} WHERE 1 = 1{_REST}"


def label_key(kind: LabelKind, row_id: int | str) -> str:
    """The key of a subject: kind and row id."""
    return f"{_COLUMN_OF[kind]} {row_id}"


def reference(kind: LabelKind, row_id: int | str) -> tuple[Value, ...]:
    """The columns that refer to a subject."""
    return tuple(row_id if column == _COLUMN_OF[kind] else None for column in COLUMNS)


def owner_from(owned_by_root: int, principal: str | None, role: str | None) -> LabelOwner | None:
    """The owner; None if there is none or it was deleted."""
    if owned_by_root:
        return LabelOwner(OwnerKind.PRINCIPAL, ROOT)
    if principal is not None:
        return LabelOwner(OwnerKind.PRINCIPAL, principal)
    return None if role is None else LabelOwner(OwnerKind.PRINCIPAL_ROLE, role)


def labels_from(labelled: Row | None, tags: Iterable[Row]) -> Labels:
    """Labels from the labels row, if any, and the tags."""
    return Labels(dict(tags), None if labelled is None else owner_from(*labelled))


class LabelledRow(NamedTuple):
    """A search result, with what its authorization needs."""

    key: str
    subject: LabelSubject
    catalog: int | None
    entry: str | None
    policy: int | None
    owner: LabelOwner | None


def labelled_from(row: Row) -> LabelledRow:
    """A row of a search."""
    key, kind, catalog_id, catalog, path, name, entry, policy, by_root, principal, role = row
    subject = LabelSubject(LabelKind(kind), catalog or "", levels_of(path) if path else (), name or "")
    return LabelledRow(key, subject, catalog_id, entry, policy, owner_from(by_root, principal, role))
