"""SQL statements of roles and grants, and conversion of rows. The only module of this package that knows columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lakebed.meta.seam import Row

from .model import CatalogRole, GrantTarget, ManagedCatalog, ManagedPrincipal, PrincipalRole, RoleGrant, levels_of
from .model import unpack_directories as _directories
from .model import unpack_properties as _properties
from .privileges import MASKS, GrantKind, Privilege
from .securables import SERVICE_KEY

# -- grants of callers --------------------------------------------------------------------------------------------

CHANGE_NUMBER: Final = (
    "(SELECT c.number FROM role_changes c"
    " WHERE EXISTS (SELECT 1 FROM principal_role_members m WHERE m.principal = p.name)"
    " OR EXISTS (SELECT 1 FROM stream_grants s WHERE s.grantee IN ('User ' || p.name, 'User *')))"
)
"""The number of the latest change: a column for statements that look up the user `p`.

NULL for users without roles and without grants on streams.
"""

INVALIDATE_GRANTS: Final = "UPDATE role_changes SET number = number + 1"
INVALIDATE_CATALOG: Final = f"{INVALIDATE_GRANTS} WHERE EXISTS (SELECT 1 FROM catalog_roles WHERE catalog = ?)"  # noqa: S608
INVALIDATE_NAMESPACE: Final = f"{INVALIDATE_GRANTS} WHERE EXISTS (SELECT 1 FROM grants WHERE namespace = ?)"  # noqa: S608
INVALIDATE_ENTRY: Final = f"{INVALIDATE_GRANTS} WHERE EXISTS (SELECT 1 FROM grants WHERE entry = ?)"  # noqa: S608
INVALIDATE_POLICY: Final = f"{INVALIDATE_GRANTS} WHERE EXISTS (SELECT 1 FROM grants WHERE policy = ?)"  # noqa: S608
"""Like `INVALIDATE_GRANTS`, if the dropped securable has grants."""

LATEST_CHANGE: Final = "SELECT number FROM role_changes"

GRANTS_OF_PRINCIPAL: Final = (
    "SELECT r.name, g.securable, g.privilege FROM principal_role_members m"  # noqa: S608  # constants only, here and below
    " JOIN principal_roles r ON r.id = m.role JOIN catalog_role_members a ON a.principal_role = m.role"
    " JOIN grants g ON g.role = a.catalog_role WHERE m.principal = ?"
    f" UNION ALL SELECT r.name, '{SERVICE_KEY}', s.privilege FROM principal_role_members m"
    " JOIN principal_roles r ON r.id = m.role JOIN service_grants s ON s.role = m.role WHERE m.principal = ?"
    f" UNION ALL SELECT r.name, 'catalog ' || c.catalog, {Privilege.CATALOG_ROLE_USAGE:d} FROM principal_role_members m"
    " JOIN principal_roles r ON r.id = m.role JOIN catalog_role_members a ON a.principal_role = m.role"
    " JOIN catalog_roles c ON c.id = a.catalog_role WHERE m.principal = ?"
    " UNION ALL SELECT r.name, NULL, 0 FROM principal_role_members m JOIN principal_roles r ON r.id = m.role"
    " WHERE m.principal = ?"
    " UNION ALL SELECT r.name, s.securable, s.privilege FROM principal_role_members m"
    " JOIN principal_roles r ON r.id = m.role JOIN stream_grants s ON s.role = m.role WHERE m.principal = ?"
    " UNION ALL SELECT NULL, s.securable, s.privilege FROM stream_grants s"
    " WHERE s.grantee IN ('User ' || ?, 'User *')"
)
"""The roles of a user and their grants. Includes the usage privilege on catalogs of catalog roles. Takes the name six
times.

Every role has one row without a securable. Grants on streams to the user itself have no role.
"""

GRANTS_OF_FEDERATED_ROLES: Final = (
    "SELECT r.name, g.securable, g.privilege FROM principal_roles r"  # noqa: S608
    " JOIN catalog_role_members a ON a.principal_role = r.id"
    " JOIN grants g ON g.role = a.catalog_role WHERE r.federated = 1"
    f" UNION ALL SELECT r.name, '{SERVICE_KEY}', s.privilege FROM principal_roles r"
    " JOIN service_grants s ON s.role = r.id WHERE r.federated = 1"
    f" UNION ALL SELECT r.name, 'catalog ' || c.catalog, {Privilege.CATALOG_ROLE_USAGE:d} FROM principal_roles r"
    " JOIN catalog_role_members a ON a.principal_role = r.id JOIN catalog_roles c ON c.id = a.catalog_role"
    " WHERE r.federated = 1"
    " UNION ALL SELECT r.name, NULL, 0 FROM principal_roles r WHERE r.federated = 1"
    " UNION ALL SELECT r.name, s.securable, s.privilege FROM principal_roles r"
    " JOIN stream_grants s ON s.role = r.id WHERE r.federated = 1"
)
"""The same for federated roles, which the identity provider assigns."""

ASSIGNABLE_ROLES: Final = (
    "SELECT r.name, m.principal IS NOT NULL FROM principal_roles r"
    " LEFT JOIN principal_role_members m ON m.role = r.id AND m.principal = ?"
    " WHERE m.principal IS NOT NULL OR r.federated = 1"
)
"""The user's roles and all federated roles; the second column is whether the role is assigned here."""

# -- users --------------------------------------------------------------------------------------------------------

_PRINCIPAL: Final = "p.name, c.client_id, p.properties, p.version, p.created_ms, p.updated_ms"
_PRINCIPALS: Final = "principals p LEFT JOIN client_credentials c ON c.user_id = p.user_id"
PRINCIPAL: Final = f"SELECT {_PRINCIPAL} FROM {_PRINCIPALS} WHERE p.name = ?"  # noqa: S608
PRINCIPALS: Final = f"SELECT {_PRINCIPAL} FROM {_PRINCIPALS} ORDER BY p.name"  # noqa: S608
HAS_PRINCIPAL: Final = "SELECT 1 FROM principals WHERE name = ?"
SET_PROPERTIES: Final = "UPDATE principals SET properties = ? WHERE name = ?"
UPDATE_PRINCIPAL: Final = "UPDATE principals SET properties = ?, version = version + 1, updated_ms = ? WHERE name = ?"

# -- principal roles ----------------------------------------------------------------------------------------------

_ROLE: Final = "r.id, r.name, r.federated, r.properties, r.version, r.created_ms, r.updated_ms"
PRINCIPAL_ROLE: Final = f"SELECT {_ROLE} FROM principal_roles r WHERE r.name = ?"  # noqa: S608
PRINCIPAL_ROLES: Final = f"SELECT {_ROLE} FROM principal_roles r ORDER BY r.name"  # noqa: S608
INSERT_PRINCIPAL_ROLE: Final = (
    "INSERT INTO principal_roles (name, federated, properties, version, created_ms, updated_ms)"
    " VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING"
)
UPDATE_PRINCIPAL_ROLE: Final = (
    "UPDATE principal_roles SET properties = ?, version = version + 1, updated_ms = ? WHERE id = ?"
)
DELETE_PRINCIPAL_ROLE: Final = "DELETE FROM principal_roles WHERE id = ?"

ADD_PRINCIPAL: Final = (
    "INSERT INTO principal_role_members (principal, role) VALUES (?, ?) ON CONFLICT (principal, role) DO NOTHING"
)
REMOVE_PRINCIPAL: Final = "DELETE FROM principal_role_members WHERE principal = ? AND role = ?"
ROLES_OF_PRINCIPAL: Final = (
    f"SELECT {_ROLE} FROM principal_role_members m JOIN principal_roles r ON r.id = m.role"  # noqa: S608
    " WHERE m.principal = ? ORDER BY r.name"
)
MEMBERS_OF_ROLE: Final = "SELECT principal FROM principal_role_members WHERE role = ? ORDER BY principal"
PRINCIPALS_OF_ROLE: Final = (
    f"SELECT {_PRINCIPAL} FROM principal_role_members m JOIN principals p ON p.name = m.principal"  # noqa: S608
    " LEFT JOIN client_credentials c ON c.user_id = p.user_id WHERE m.role = ? ORDER BY p.name"
)

# -- catalog roles ------------------------------------------------------------------------------------------------

_CATALOG_ROLE: Final = "r.id, r.name, r.properties, r.version, r.created_ms, r.updated_ms"
CATALOG_ROLE: Final = f"SELECT {_CATALOG_ROLE} FROM catalog_roles r WHERE r.catalog = ? AND r.name = ?"  # noqa: S608
CATALOG_ROLES: Final = f"SELECT {_CATALOG_ROLE} FROM catalog_roles r WHERE r.catalog = ? ORDER BY r.name"  # noqa: S608
INSERT_CATALOG_ROLE: Final = (
    "INSERT INTO catalog_roles (catalog, name, properties, version, created_ms, updated_ms)"
    " VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (catalog, name) DO NOTHING"
)
UPDATE_CATALOG_ROLE: Final = (
    "UPDATE catalog_roles SET properties = ?, version = version + 1, updated_ms = ? WHERE id = ?"
)
DELETE_CATALOG_ROLE: Final = "DELETE FROM catalog_roles WHERE id = ?"

ADD_PRINCIPAL_ROLE: Final = (
    "INSERT INTO catalog_role_members (principal_role, catalog_role) VALUES (?, ?)"
    " ON CONFLICT (principal_role, catalog_role) DO NOTHING"
)
REMOVE_PRINCIPAL_ROLE: Final = "DELETE FROM catalog_role_members WHERE principal_role = ? AND catalog_role = ?"
CATALOG_ROLES_OF_PRINCIPAL_ROLE: Final = (
    f"SELECT {_CATALOG_ROLE} FROM catalog_role_members m JOIN catalog_roles r ON r.id = m.catalog_role"  # noqa: S608
    " WHERE m.principal_role = ? AND r.catalog = ? ORDER BY r.name"
)
PRINCIPAL_ROLES_OF_CATALOG_ROLE: Final = (
    f"SELECT {_ROLE} FROM catalog_role_members m JOIN principal_roles r ON r.id = m.principal_role"  # noqa: S608
    " WHERE m.catalog_role = ? ORDER BY r.name"
)
ASSIGNED_CATALOG_ROLES: Final = (
    "SELECT w.name, r.name FROM catalog_role_members m JOIN catalog_roles r ON r.id = m.catalog_role"
    " JOIN warehouses w ON w.id = r.catalog WHERE m.principal_role = ? ORDER BY w.name, r.name"
)

# -- catalogs and their contents ----------------------------------------------------------------------------------

_CATALOG: Final = (
    "w.id, w.name, b.owner, b.region, b.name, w.base_prefix, w.allowed, w.kind, w.properties, w.version, w.created_ms,"
    " w.updated_ms"
)
_CATALOGS: Final = "warehouses w JOIN buckets b ON b.id = w.bucket"
CATALOG: Final = f"SELECT {_CATALOG} FROM {_CATALOGS} WHERE w.name = ?"  # noqa: S608
CATALOGS: Final = f"SELECT {_CATALOG} FROM {_CATALOGS} ORDER BY w.name"  # noqa: S608
NAMESPACE: Final = "SELECT id FROM namespaces WHERE warehouse = ? AND path = ?"
ENTRY: Final = "SELECT id FROM entries WHERE namespace = ? AND name = ? AND kind IN (?, ?) AND dropped_ms IS NULL"
POLICY: Final = "SELECT id FROM policies WHERE namespace = ? AND name = ?"

_GENERIC_TABLE: Final = "generic-table"


def entry_kinds(kind: GrantKind) -> tuple[str, str]:
    """The entry kinds of a grant on tables or views. Tables include generic tables."""
    return (kind, _GENERIC_TABLE) if kind is GrantKind.TABLE else (kind, kind)


# -- grants -------------------------------------------------------------------------------------------------------

ADD_GRANT: Final = (
    "INSERT INTO grants (role, securable, privilege, namespace, entry, policy, granted_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (role, securable, privilege) DO NOTHING"
)
REMOVE_GRANT: Final = "DELETE FROM grants WHERE role = ? AND securable = ? AND privilege = ?"
GRANTS_OF_ROLE: Final = (
    "SELECT g.securable, g.privilege, n.path, e.kind, e.name, en.path, p.name, pn.path, e.dropped_ms FROM grants g"
    " LEFT JOIN namespaces n ON n.id = g.namespace"
    " LEFT JOIN entries e ON e.id = g.entry LEFT JOIN namespaces en ON en.id = e.namespace"
    " LEFT JOIN policies p ON p.id = g.policy LEFT JOIN namespaces pn ON pn.id = p.namespace"
    " WHERE g.role = ? ORDER BY g.securable, g.privilege"
)
"""Includes grants on dropped tables that can be restored with them."""


# -- grants on streams --------------------------------------------------------------------------------------------

ADD_STREAM_GRANT: Final = (
    "INSERT INTO stream_grants (grantee, securable, privilege, principal, role, granted_ms) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (grantee, securable, privilege) DO NOTHING"
)
REMOVE_STREAM_GRANT: Final = "DELETE FROM stream_grants WHERE grantee = ? AND securable = ? AND privilege = ?"
STREAM_GRANTS: Final = (
    "SELECT g.grantee, r.name, g.securable, g.privilege FROM stream_grants g"
    " LEFT JOIN principal_roles r ON r.id = g.role ORDER BY g.grantee, g.securable, g.privilege"
)
DELETE_STREAM_GRANTS: Final = "DELETE FROM stream_grants WHERE securable = ?"
DELETE_DATABASE_GRANTS: Final = "DELETE FROM stream_grants WHERE securable = ? OR (securable >= ? AND securable < ?)"
"""A database and its tables, by a range of keys."""


def principal_from(row: Row) -> ManagedPrincipal:
    """A user."""
    name, client_id, properties, version, created_ms, updated_ms = row
    return ManagedPrincipal(name, client_id, _properties(properties), version, created_ms, updated_ms)


def principal_role_from(row: Row) -> PrincipalRole:
    """A principal role."""
    role_id, name, federated, properties, version, created_ms, updated_ms = row
    return PrincipalRole(role_id, name, bool(federated), _properties(properties), version, created_ms, updated_ms)


def catalog_role_from(row: Row) -> CatalogRole:
    """A catalog role."""
    role_id, name, properties, version, created_ms, updated_ms = row
    return CatalogRole(role_id, name, _properties(properties), version, created_ms, updated_ms)


def catalog_from(row: Row) -> ManagedCatalog:
    """A catalog."""
    catalog_id, name, owner, region, bucket, base_prefix, allowed, kind, properties, version, *times = row
    return ManagedCatalog(
        catalog_id,
        name,
        owner,
        region,
        bucket.rpartition("/")[2],  # an external bucket is /HOST/BUCKET
        base_prefix,
        _directories(allowed),
        kind,
        _properties(properties),
        version,
        *times,
    )


class StoredGrant(NamedTuple):
    """A grant with properties of its row."""

    key: str
    """The key of the securable."""
    grant: RoleGrant
    is_hidden: bool
    """Whether the securable was dropped and can be restored."""


def grants_from(found: Iterable[Row]) -> Iterator[StoredGrant]:
    """Grants from rows of `GRANTS_OF_ROLE`. Ignores privileges of later releases."""
    return (_grant_from(row) for row in found if row[1] in MASKS)


def _grant_from(row: Row) -> StoredGrant:
    key, privilege, namespace, entry_kind, entry, entry_namespace, policy, policy_namespace, dropped_ms = row
    if entry is not None:
        kind = GrantKind.TABLE if entry_kind == _GENERIC_TABLE else GrantKind(entry_kind)
        target = GrantTarget(kind, levels_of(entry_namespace), entry)
    elif policy is not None:
        target = GrantTarget(GrantKind.POLICY, levels_of(policy_namespace), policy)
    elif namespace is not None:
        target = GrantTarget(GrantKind.NAMESPACE, levels_of(namespace))
    else:
        target = GrantTarget(GrantKind.CATALOG)
    return StoredGrant(key, RoleGrant(target, Privilege(privilege)), dropped_ms is not None)
