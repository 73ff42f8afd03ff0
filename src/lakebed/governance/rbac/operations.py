"""The privileges that each operation requires, by operation id of its API. Pure data.

`ACTION_PRIVILEGES` has the same for policy actions (`s3tables:…`, `lakebed:…`), which the catalog authorizes. Where an
operation requires other privileges than its action, `OPERATIONS` has precedence.

Invariant: the required privileges are never weaker than what the action permits. Without a privilege of its own, an
action requires a stronger one, or can be allowed only by a policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .privileges import GrantKind, Privilege

P = Privilege


class RequiredPrivileges(NamedTuple):
    """The required privileges; all of them are needed."""

    target: tuple[Privilege, ...]
    """On the target; for creation, on its parent."""

    secondary: tuple[Privilege, ...] = ()
    """On the second target: the new parent of a rename, or the target of a policy."""


NAMESPACE_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "listNamespaces": RequiredPrivileges((P.NAMESPACE_LIST,)),
    "createNamespace": RequiredPrivileges((P.NAMESPACE_CREATE,)),
    "loadNamespaceMetadata": RequiredPrivileges((P.NAMESPACE_READ_PROPERTIES,)),
    "namespaceExists": RequiredPrivileges((P.NAMESPACE_LIST,)),
    "dropNamespace": RequiredPrivileges((P.NAMESPACE_DROP,)),
    "updateProperties": RequiredPrivileges((P.NAMESPACE_WRITE_PROPERTIES,)),
}

TABLE_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "listTables": RequiredPrivileges((P.TABLE_LIST,)),
    "createTable": RequiredPrivileges((P.TABLE_CREATE,)),
    "registerTable": RequiredPrivileges((P.TABLE_CREATE,)),
    "registerTable overwrite": RequiredPrivileges((P.TABLE_FULL_METADATA,)),
    "unregisterTable": RequiredPrivileges((P.TABLE_DROP,)),
    "loadTable": RequiredPrivileges((P.TABLE_READ_PROPERTIES,)),
    "tableExists": RequiredPrivileges((P.TABLE_LIST,)),
    "updateTable": RequiredPrivileges((P.TABLE_WRITE_PROPERTIES,)),
    "updateTable create": RequiredPrivileges((P.TABLE_CREATE,)),
    "commitTransaction": RequiredPrivileges((P.TABLE_WRITE_PROPERTIES, P.TABLE_CREATE)),
    "dropTable": RequiredPrivileges((P.TABLE_DROP,)),
    "dropTable purge": RequiredPrivileges((P.TABLE_DROP, P.TABLE_WRITE_DATA)),
    "renameTable": RequiredPrivileges((P.TABLE_DROP,), (P.TABLE_LIST, P.TABLE_CREATE)),
    "reportMetrics scan": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "reportMetrics commit": RequiredPrivileges((P.TABLE_WRITE_DATA,)),
    "planTableScan": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "fetchPlanningResult": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "cancelPlanning": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "fetchScanTasks": RequiredPrivileges((P.TABLE_READ_DATA,)),
    # Vended credentials and remote signing: the first for reading, the second for writing, which is tried first.
    "loadCredentials": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "loadCredentials write": RequiredPrivileges((P.TABLE_WRITE_DATA,)),
    "signRequest": RequiredPrivileges((P.TABLE_READ_DATA,)),
    "signRequest write": RequiredPrivileges((P.TABLE_WRITE_DATA,)),
    "sendNotification": RequiredPrivileges(
        (P.TABLE_CREATE, P.TABLE_WRITE_PROPERTIES, P.TABLE_DROP, P.NAMESPACE_CREATE, P.NAMESPACE_DROP)
    ),
}
"""The second word distinguishes variants of an operation."""

VIEW_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "listViews": RequiredPrivileges((P.VIEW_LIST,)),
    "createView": RequiredPrivileges((P.VIEW_CREATE,)),
    "registerView": RequiredPrivileges((P.VIEW_CREATE,)),
    "loadView": RequiredPrivileges((P.VIEW_READ_PROPERTIES,)),
    "viewExists": RequiredPrivileges((P.VIEW_LIST,)),
    "replaceView": RequiredPrivileges((P.VIEW_WRITE_PROPERTIES,)),
    "dropView": RequiredPrivileges((P.VIEW_DROP,)),
    "renameView": RequiredPrivileges((P.VIEW_DROP,), (P.VIEW_LIST, P.VIEW_CREATE)),
}

POLICY_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "createPolicy": RequiredPrivileges((P.POLICY_CREATE,)),
    "listPolicies": RequiredPrivileges((P.POLICY_LIST,)),
    "loadPolicy": RequiredPrivileges((P.POLICY_READ,)),
    "updatePolicy": RequiredPrivileges((P.POLICY_WRITE,)),
    "dropPolicy": RequiredPrivileges((P.POLICY_DROP,)),
    "attachPolicy catalog": RequiredPrivileges((P.POLICY_ATTACH,), (P.CATALOG_ATTACH_POLICY,)),
    "attachPolicy namespace": RequiredPrivileges((P.POLICY_ATTACH,), (P.NAMESPACE_ATTACH_POLICY,)),
    "attachPolicy table": RequiredPrivileges((P.POLICY_ATTACH,), (P.TABLE_ATTACH_POLICY,)),
    "detachPolicy catalog": RequiredPrivileges((P.POLICY_DETACH,), (P.CATALOG_DETACH_POLICY,)),
    "detachPolicy namespace": RequiredPrivileges((P.POLICY_DETACH,), (P.NAMESPACE_DETACH_POLICY,)),
    "detachPolicy table": RequiredPrivileges((P.POLICY_DETACH,), (P.TABLE_DETACH_POLICY,)),
    # No policy privilege: readers of a resource may see the policies that apply to it.
    "getApplicablePolicies catalog": RequiredPrivileges((P.CATALOG_READ_PROPERTIES,)),
    "getApplicablePolicies namespace": RequiredPrivileges((P.NAMESPACE_READ_PROPERTIES,)),
    "getApplicablePolicies table": RequiredPrivileges((P.TABLE_READ_PROPERTIES,)),
    "getApplicablePolicies view": RequiredPrivileges((P.VIEW_READ_PROPERTIES,)),
}
"""Views have no attach privilege of their own and use that of tables."""

GENERIC_TABLE_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "listGenericTables": RequiredPrivileges((P.TABLE_LIST,)),
    "createGenericTable": RequiredPrivileges((P.TABLE_CREATE,)),
    "loadGenericTable": RequiredPrivileges((P.TABLE_READ_PROPERTIES,)),
    "dropGenericTable": RequiredPrivileges((P.TABLE_DROP,)),
}
"""As for tables; vended credentials for their files require those of tables too."""

LABEL_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    f"{operation} {noun}": RequiredPrivileges((Privilege[privilege],))
    for noun, reads, writes in (
        ("catalog", "CATALOG_READ_PROPERTIES", "CATALOG_WRITE_PROPERTIES"),
        ("namespace", "NAMESPACE_READ_PROPERTIES", "NAMESPACE_WRITE_PROPERTIES"),
        ("table", "TABLE_READ_PROPERTIES", "TABLE_WRITE_PROPERTIES"),
        ("view", "VIEW_READ_PROPERTIES", "VIEW_WRITE_PROPERTIES"),
        ("policy", "POLICY_READ", "POLICY_WRITE"),
        ("catalog-role", "CATALOG_ROLE_READ_PROPERTIES", "CATALOG_ROLE_WRITE_PROPERTIES"),
        ("principal", "PRINCIPAL_READ_PROPERTIES", "PRINCIPAL_WRITE_PROPERTIES"),
        ("principal-role", "PRINCIPAL_ROLE_READ_PROPERTIES", "PRINCIPAL_ROLE_WRITE_PROPERTIES"),
    )
    for operation, privilege in (("getLabels", reads), ("setLabels", writes))
}
"""Tags and owners require the privileges for properties."""

MANAGEMENT_OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    "listCatalogs": RequiredPrivileges((P.CATALOG_LIST,)),
    "createCatalog": RequiredPrivileges((P.CATALOG_CREATE,)),
    "getCatalog": RequiredPrivileges((P.CATALOG_READ_PROPERTIES,)),
    "updateCatalog": RequiredPrivileges((P.CATALOG_WRITE_PROPERTIES,)),
    "deleteCatalog": RequiredPrivileges((P.CATALOG_DROP,)),
    "listPrincipals": RequiredPrivileges((P.PRINCIPAL_LIST,)),
    "createPrincipal": RequiredPrivileges((P.PRINCIPAL_CREATE,)),
    "getPrincipal": RequiredPrivileges((P.PRINCIPAL_READ_PROPERTIES,)),
    "updatePrincipal": RequiredPrivileges((P.PRINCIPAL_WRITE_PROPERTIES,)),
    "deletePrincipal": RequiredPrivileges((P.PRINCIPAL_DROP,)),
    "rotateCredentials": RequiredPrivileges((P.PRINCIPAL_ROTATE_CREDENTIALS,)),
    "resetCredentials": RequiredPrivileges((P.PRINCIPAL_RESET_CREDENTIALS,)),
    "listPrincipalRolesAssigned": RequiredPrivileges((P.PRINCIPAL_LIST_GRANTS,)),
    "assignPrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE,)),
    "revokePrincipalRole": RequiredPrivileges(
        (P.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE,), (P.PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE,)
    ),
    "listPrincipalRoles": RequiredPrivileges((P.PRINCIPAL_ROLE_LIST,)),
    "createPrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_CREATE,)),
    "getPrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_READ_PROPERTIES,)),
    "updatePrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_WRITE_PROPERTIES,)),
    "deletePrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_DROP,)),
    "listAssigneePrincipalsForPrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_LIST_GRANTS,)),
    "listCatalogRolesForPrincipalRole": RequiredPrivileges((P.PRINCIPAL_ROLE_LIST_GRANTS,)),
    "assignCatalogRoleToPrincipalRole": RequiredPrivileges((P.CATALOG_ROLE_MANAGE_GRANTS_ON_SECURABLE,)),
    "revokeCatalogRoleFromPrincipalRole": RequiredPrivileges((P.CATALOG_ROLE_MANAGE_GRANTS_ON_SECURABLE,)),
    "listCatalogRoles": RequiredPrivileges((P.CATALOG_ROLE_LIST,)),
    "createCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_CREATE,)),
    "getCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_READ_PROPERTIES,)),
    "updateCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_WRITE_PROPERTIES,)),
    "deleteCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_DROP,)),
    "listAssigneePrincipalRolesForCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_LIST_GRANTS,)),
    "listGrantsForCatalogRole": RequiredPrivileges((P.CATALOG_ROLE_LIST_GRANTS,)),
    **{
        operation: needs
        for kind in GrantKind
        for operation, needs in {
            f"addGrantToCatalogRole {kind}": RequiredPrivileges(
                (Privilege[f"{kind.upper()}_MANAGE_GRANTS_ON_SECURABLE"],)
            ),
            f"revokeGrantFromCatalogRole {kind}": RequiredPrivileges(
                (Privilege[f"{kind.upper()}_MANAGE_GRANTS_ON_SECURABLE"],), (P.CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE,)
            ),
        }.items()
    },
}
"""On the service, a catalog or the target of a grant. `revoke…` also requires one on the grantee."""

OPERATIONS: Final[Mapping[str, RequiredPrivileges]] = {
    **NAMESPACE_OPERATIONS,
    **TABLE_OPERATIONS,
    **VIEW_OPERATIONS,
    **POLICY_OPERATIONS,
    **GENERIC_TABLE_OPERATIONS,
    **LABEL_OPERATIONS,
    **MANAGEMENT_OPERATIONS,
}

ACTION_PRIVILEGES: Final[Mapping[str, tuple[Privilege, ...]]] = {
    "s3tables:CreateTableBucket": (P.CATALOG_WRITE_PROPERTIES,),
    "s3tables:GetTableBucket": (P.CATALOG_READ_PROPERTIES,),
    "s3tables:ListTableBuckets": (P.CATALOG_LIST,),
    "s3tables:CreateNamespace": (P.NAMESPACE_CREATE,),
    "s3tables:GetNamespace": (P.NAMESPACE_READ_PROPERTIES,),
    "s3tables:ListNamespaces": (P.NAMESPACE_LIST,),
    "s3tables:UpdateNamespace": (P.NAMESPACE_WRITE_PROPERTIES,),
    "s3tables:DeleteNamespace": (P.NAMESPACE_DROP,),
    "s3tables:ListTables": (P.TABLE_LIST,),
    "s3tables:CreateTable": (P.TABLE_CREATE,),
    "s3tables:GetTable": (P.TABLE_READ_PROPERTIES,),
    "s3tables:RenameTable": (P.TABLE_DROP,),
    "s3tables:DeleteTable": (P.TABLE_DROP,),
    "s3tables:GetTableMetadataLocation": (P.TABLE_READ_PROPERTIES,),
    # Outside of commits, whose updates determine the privileges: a new metadata location can contain any change.
    "s3tables:UpdateTableMetadataLocation": (P.TABLE_FULL_METADATA,),
    "s3tables:GetTableData": (P.TABLE_READ_DATA,),
    "s3tables:PutTableData": (P.TABLE_WRITE_DATA,),
    "s3tables:GetTableMaintenanceConfiguration": (P.TABLE_READ_PROPERTIES,),
    "s3tables:PutTableMaintenanceConfiguration": (P.TABLE_WRITE_PROPERTIES,),
    # It deletes files.
    "s3tables:RunTableMaintenance": (P.TABLE_WRITE_DATA,),
    "lakebed:CreatePolicy": (P.POLICY_CREATE,),
    "lakebed:ReadPolicy": (P.POLICY_READ,),
    "lakebed:UpdatePolicy": (P.POLICY_WRITE,),
    "lakebed:DropPolicy": (P.POLICY_DROP,),
    "lakebed:ListPolicies": (P.POLICY_LIST,),
    "lakebed:AttachPolicy": (P.POLICY_ATTACH,),
    "lakebed:DetachPolicy": (P.POLICY_DETACH,),
    "lakebed:CreatePolicyType": (P.CATALOG_MANAGE_METADATA,),
    "lakebed:DropPolicyType": (P.CATALOG_MANAGE_METADATA,),
    # Of tables; for other kinds see `_LABELS`.
    "lakebed:GetLabels": (P.TABLE_READ_PROPERTIES,),
    "lakebed:SetLabels": (P.TABLE_WRITE_PROPERTIES,),
    # It makes the server connect to other systems.
    "lakebed:ConfigureBridge": (),
    # It does too, but only to those in the settings: like the creation of a catalog, on the service.
    "lakebed:ConfigureConnection": (P.CATALOG_CREATE,),
    "lakebed:SendNotification": TABLE_OPERATIONS["sendNotification"].target,
}
"""By action. An empty one cannot be granted."""

_OF_VIEWS: Final[Mapping[str, tuple[Privilege, ...]]] = {
    "s3tables:ListTables": (P.VIEW_LIST,),
    "s3tables:CreateTable": (P.VIEW_CREATE,),
    "s3tables:GetTable": (P.VIEW_READ_PROPERTIES,),
    "s3tables:RenameTable": (P.VIEW_DROP,),
    "s3tables:DeleteTable": (P.VIEW_DROP,),
    "s3tables:GetTableMetadataLocation": (P.VIEW_READ_PROPERTIES,),
    "s3tables:UpdateTableMetadataLocation": (P.VIEW_WRITE_PROPERTIES,),
}

_ON_TARGET: Final[Mapping[tuple[str, GrantKind], tuple[Privilege, ...]]] = {
    (action, kind): OPERATIONS[f"{operation} {'table' if kind is GrantKind.VIEW else kind}"].secondary
    for action, operation in (("lakebed:AttachPolicy", "attachPolicy"), ("lakebed:DetachPolicy", "detachPolicy"))
    for kind in (GrantKind.CATALOG, GrantKind.NAMESPACE, GrantKind.TABLE, GrantKind.VIEW)
}

_LABELS: Final[Mapping[tuple[str, GrantKind], tuple[Privilege, ...]]] = {
    (action, kind): OPERATIONS[f"{operation} {kind}"].target
    for action, operation in (("lakebed:GetLabels", "getLabels"), ("lakebed:SetLabels", "setLabels"))
    for kind in GrantKind
}

_BY_KIND: Final[Mapping[tuple[str, GrantKind], tuple[Privilege, ...]]] = {**_ON_TARGET, **_LABELS}

_MAINTENANCE_OF_CATALOG: Final[Mapping[str, tuple[Privilege, ...]]] = {
    "s3tables:GetTableMaintenanceConfiguration": (P.CATALOG_READ_PROPERTIES,),
    "s3tables:PutTableMaintenanceConfiguration": (P.CATALOG_WRITE_PROPERTIES,),
}


def action_privileges(action: str, kind: GrantKind) -> tuple[Privilege, ...]:
    """The privileges that a policy action requires on a securable of that kind; empty if none suffices.

    For creation and listing, `kind` is the kind of the children. `AttachPolicy` and `DetachPolicy` are authorized
    twice: on the policy and on its target.
    """
    if (action, kind) in _BY_KIND:
        return _BY_KIND[action, kind]
    if kind is GrantKind.VIEW and action in _OF_VIEWS:
        return _OF_VIEWS[action]
    if kind is GrantKind.CATALOG and action in _MAINTENANCE_OF_CATALOG:
        return _MAINTENANCE_OF_CATALOG[action]
    return ACTION_PRIVILEGES.get(action, ())


UPDATE_PRIVILEGES: Final[Mapping[str, Privilege]] = {
    "assign-uuid": P.TABLE_ASSIGN_UUID,
    "upgrade-format-version": P.TABLE_UPGRADE_FORMAT_VERSION,
    "add-schema": P.TABLE_ADD_SCHEMA,
    "set-current-schema": P.TABLE_SET_CURRENT_SCHEMA,
    "add-spec": P.TABLE_ADD_PARTITION_SPEC,
    "add-sort-order": P.TABLE_ADD_SORT_ORDER,
    "set-default-sort-order": P.TABLE_SET_DEFAULT_SORT_ORDER,
    "add-snapshot": P.TABLE_ADD_SNAPSHOT,
    "set-snapshot-ref": P.TABLE_SET_SNAPSHOT_REF,
    "remove-snapshots": P.TABLE_REMOVE_SNAPSHOTS,
    "remove-snapshot-ref": P.TABLE_REMOVE_SNAPSHOT_REF,
    "set-location": P.TABLE_SET_LOCATION,
    "set-properties": P.TABLE_SET_PROPERTIES,
    "remove-properties": P.TABLE_REMOVE_PROPERTIES,
    "set-statistics": P.TABLE_SET_STATISTICS,
    "remove-statistics": P.TABLE_REMOVE_STATISTICS,
    "remove-partition-specs": P.TABLE_REMOVE_PARTITION_SPECS,
}
"""Kinds of updates with their own privilege. Others require the privilege to write properties."""


def commit_privileges(updates: Iterable[str]) -> tuple[Privilege, ...]:
    """The privileges that a commit to an existing table requires, by the kinds of its updates.

    Replaces those of its action. A commit without updates requires the privilege to write properties.
    """
    needed = {UPDATE_PRIVILEGES.get(kind, P.TABLE_WRITE_PROPERTIES) for kind in updates}
    return tuple(sorted(needed)) or (P.TABLE_WRITE_PROPERTIES,)
