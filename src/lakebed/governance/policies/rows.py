"""SQL statements of policies, and conversion of rows. The only module of this package that knows columns.

A policy belongs to a namespace and is attached to catalogs, namespaces, tables and views, whose rows belong to the
catalog. The column `target` identifies the target: see `catalog_key` and the next two functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.meta.seam import Row

from ..rbac.model import levels_of
from .model import AttachedPolicy, AttachmentTarget, Policy, PolicyTargetKind, PolicyVersion
from .policy_types import PolicyType

TARGETS_BATCH: Final = 16
"""Number of keys of targets, or of paths, per statement."""

_NAMES: Final = "id, name, type, inheritable, description, content, version, created_ms, updated_ms"
_POLICY: Final = ", ".join(f"p.{column.strip()}" for column in _NAMES.split(",")) + ", h.path"
_FROM: Final = "policies p JOIN namespaces h ON h.id = p.namespace"
_MARKS: Final = ", ".join("?" for _ in range(TARGETS_BATCH))
POLICY_COLUMNS: Final = len(_NAMES.split(",")) + 1

# -- policies -----------------------------------------------------------------------------------------------------

POLICY: Final = f"SELECT {_POLICY} FROM {_FROM} WHERE h.warehouse = ? AND h.path = ? AND p.name = ?"  # noqa: S608  # constants only, here and below
POLICY_NAMES_AFTER: Final = (
    "SELECT name FROM policies WHERE namespace = ? AND (? = '' OR type = ?) AND name > ? ORDER BY name LIMIT ?"
)
INSERT_POLICY: Final = (
    "INSERT INTO policies (warehouse, namespace, name, type, inheritable, description, content, version, created_ms,"
    " updated_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT (namespace, name) DO NOTHING RETURNING id"
)
UPDATE_POLICY: Final = "UPDATE policies SET description = ?, content = ?, version = ?, updated_ms = ? WHERE id = ?"
DELETE_POLICY: Final = "DELETE FROM policies WHERE id = ?"

INSERT_VERSION: Final = (
    "INSERT INTO policy_versions (policy, version, description, content, principal, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_VERSION: Final = "version, description, content, principal, created_ms"
VERSION: Final = f"SELECT {_VERSION} FROM policy_versions WHERE policy = ? AND version = ?"  # noqa: S608
VERSIONS_BEFORE: Final = (
    f"SELECT {_VERSION} FROM policy_versions WHERE policy = ? AND version < ? ORDER BY version DESC LIMIT ?"  # noqa: S608
)

# -- types --------------------------------------------------------------------------------------------------------

_TYPE: Final = "name, inheritable, targets, description, schema, created_ms"
TYPE: Final = f"SELECT {_TYPE} FROM policy_types WHERE warehouse = ? AND name = ?"  # noqa: S608
TYPES_AFTER: Final = f"SELECT {_TYPE} FROM policy_types WHERE warehouse = ? AND name > ? ORDER BY name LIMIT ?"  # noqa: S608
INSERT_TYPE: Final = (
    f"INSERT INTO policy_types (warehouse, {_TYPE}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (warehouse, name) DO NOTHING RETURNING name"
)
DELETE_TYPE: Final = "DELETE FROM policy_types WHERE warehouse = ? AND name = ?"
TYPE_HAS_POLICIES: Final = "SELECT 1 FROM policies WHERE warehouse = ? AND type = ? LIMIT 1"

# -- attachments --------------------------------------------------------------------------------------------------

ATTACH: Final = (
    "INSERT INTO policy_attachments (target, policy, warehouse, namespace, entry, type, inheritable, parameters,"
    " attached_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (target, policy) DO UPDATE SET parameters = excluded.parameters, attached_ms = excluded.attached_ms"
    " WHERE policy_attachments.parameters <> excluded.parameters"
)
"""Changes no row if the policy is attached with the same parameters."""

DETACH: Final = "DELETE FROM policy_attachments WHERE target = ? AND policy = ?"
IS_ATTACHED: Final = "SELECT 1 FROM policy_attachments WHERE target = ? AND policy = ?"
OTHER_OF_TYPE: Final = (
    f"SELECT {_POLICY} FROM policy_attachments a JOIN policies p ON p.id = a.policy"  # noqa: S608
    " JOIN namespaces h ON h.id = p.namespace"
    " WHERE a.target = ? AND a.type = ? AND a.inheritable = 1 AND a.policy <> ?"
)
_ATTACHED: Final = (
    f"SELECT {_POLICY}, a.target, a.parameters, a.attached_ms FROM policy_attachments a"  # noqa: S608
    " JOIN policies p ON p.id = a.policy JOIN namespaces h ON h.id = p.namespace"
)
ATTACHED_TO: Final = f"{_ATTACHED} WHERE a.target IN ({_MARKS}) ORDER BY a.target, a.policy"
ATTACHED_TO_CONTAINERS: Final = f"{_ATTACHED} WHERE a.warehouse = ? AND a.entry IS NULL ORDER BY a.target, a.policy"
ATTACHED_TO_ENTRIES: Final = (
    f"{_ATTACHED} WHERE a.warehouse = ? AND a.entry >= ? AND a.entry <= ? ORDER BY a.target, a.policy"
)
NAMESPACE_IDS: Final = f"SELECT path, id FROM namespaces WHERE warehouse = ? AND path IN ({_MARKS})"  # noqa: S608
NAMESPACES_WITH_POLICIES: Final = (
    "SELECT DISTINCT n.path, n.id FROM policy_attachments a JOIN namespaces n ON n.id = a.namespace"
    " WHERE a.warehouse = ?"
)

TARGETS_OF: Final = (
    "SELECT a.target, n.path, e.kind, e.name, m.path, e.id, a.parameters, a.attached_ms FROM policy_attachments a"
    " LEFT JOIN namespaces n ON n.id = a.namespace LEFT JOIN entries e ON e.id = a.entry"
    " LEFT JOIN namespaces m ON m.id = e.namespace WHERE a.policy = ? AND a.target > ? ORDER BY a.target LIMIT ?"
)


class PolicyMapping(NamedTuple):
    """An attachment of a policy."""

    key: str
    target: AttachmentTarget
    entry: str
    """The id of the table or view; empty for other targets."""
    parameters: Mapping[str, str]
    attached_ms: int


def catalog_key(catalog: int) -> str:
    """The target key of a catalog."""
    return f"warehouse {catalog}"


def namespace_key(namespace: int) -> str:
    """The target key of a namespace."""
    return f"namespace {namespace}"


def entry_key(entry: str) -> str:
    """The target key of a table or view."""
    return f"entry {entry}"


def policy_from(row: Row) -> Policy:
    """A policy from the first columns of a row."""
    policy_id, name, kind, inheritable, description, content, version, created_ms, updated_ms, path = row[
        :POLICY_COLUMNS
    ]
    return Policy(
        id=policy_id,
        namespace=levels_of(path),
        name=name,
        type=kind,
        inheritable=bool(inheritable),
        description=description,
        content=bytes(content).decode(),
        version=version,
        created_ms=created_ms,
        updated_ms=updated_ms,
    )


def version_from(row: Row) -> PolicyVersion:
    """A version of a policy."""
    version, description, content, principal, created_ms = row
    return PolicyVersion(version, description, bytes(content).decode(), principal, created_ms)


def attachment_from(row: Row) -> tuple[str, AttachedPolicy]:
    """The key of a target, and a policy attached to it."""
    target, parameters, attached_ms = row[POLICY_COLUMNS:]
    return target, AttachedPolicy(policy_from(row), unpack_parameters(parameters), attached_ms)


def mapping_from(row: Row) -> PolicyMapping:
    """An attachment from a row of `TARGETS_OF`."""
    key, namespace, kind, name, parent, entry, parameters, attached_ms = row
    if entry is not None:
        target = AttachmentTarget(PolicyTargetKind(kind), (*levels_of(parent), name))
    elif namespace is not None:
        target = AttachmentTarget(PolicyTargetKind.NAMESPACE, levels_of(namespace))
    else:
        target = AttachmentTarget(PolicyTargetKind.CATALOG)
    return PolicyMapping(key, target, entry or "", unpack_parameters(parameters), attached_ms)


def type_from(row: Row) -> PolicyType:
    """A user-defined type."""
    name, inheritable, targets, description, schema, created_ms = row
    kinds = tuple(PolicyTargetKind(kind) for kind in targets.split(" "))
    return PolicyType(name, bool(inheritable), kinds, description, bytes(schema), created_ms)


def type_columns(policy_type: PolicyType) -> tuple[str | int | bytes | None, ...]:
    """The columns of `INSERT_TYPE` after the catalog."""
    return (
        policy_type.name,
        int(policy_type.inheritable),
        " ".join(policy_type.targets),
        policy_type.description,
        policy_type.schema,
        policy_type.created_ms,
    )


def pack_parameters(parameters: Mapping[str, str]) -> bytes:
    """Parameters, encoded for their column. The encoding is canonical."""
    return _encode(dict(sorted(parameters.items())))


_encode = msgspec.msgpack.Encoder().encode
unpack_parameters = msgspec.msgpack.Decoder(dict[str, str]).decode
