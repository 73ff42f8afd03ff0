"""The operation of each route, for operation hooks and the audit log: one table for all APIs.

Routes that extend the Iceberg specification map to the same operations, so that a listener which may veto changes of
tables is called for every way to change one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.operations import Operation as Op

_LABELLED: Final = (
    "Catalog",
    "Namespace",
    "Table",
    "View",
    "GenericTable",
    "Policy",
    "Principal",
    "PrincipalRole",
    "CatalogRole",
)

ROUTE_OPERATIONS: Final[Mapping[str, Op]] = {
    # Catalogs: those of Polaris, and table buckets.
    "getConfig": Op.GET_CONFIG,
    "createCatalog": Op.CREATE_CATALOG,
    "deleteCatalog": Op.DELETE_CATALOG,
    "getCatalog": Op.GET_CATALOG,
    "updateCatalog": Op.UPDATE_CATALOG,
    "listCatalogs": Op.LIST_CATALOGS,
    "enableTableBucket": Op.CREATE_CATALOG,
    "getTableBucket": Op.GET_CATALOG,
    "updateTableBucket": Op.UPDATE_CATALOG,
    "listTableBuckets": Op.LIST_CATALOGS,
    "getBucketMaintenanceConfig": Op.GET_CATALOG,
    "putBucketMaintenanceConfig": Op.UPDATE_CATALOG,
    "deleteBucketMaintenanceConfig": Op.UPDATE_CATALOG,
    # The connection of a federated catalog is part of the catalog.
    "putConnection": Op.UPDATE_CATALOG,
    "removeConnection": Op.UPDATE_CATALOG,
    "getConnection": Op.GET_CATALOG,
    "tryConnection": Op.GET_CATALOG,
    "listConnections": Op.LIST_CATALOGS,
    # Namespaces.
    "createNamespace": Op.CREATE_NAMESPACE,
    "listNamespaces": Op.LIST_NAMESPACES,
    "loadNamespaceMetadata": Op.LOAD_NAMESPACE_METADATA,
    "namespaceExists": Op.CHECK_EXISTS_NAMESPACE,
    "dropNamespace": Op.DROP_NAMESPACE,
    "updateProperties": Op.UPDATE_NAMESPACE_PROPERTIES,
    # Tables.
    "createTable": Op.CREATE_TABLE,
    "listTables": Op.LIST_TABLES,
    "listDropped": Op.LIST_TABLES,
    "listTableHealth": Op.LIST_TABLES,
    "listTablesWithoutPolicy": Op.LIST_TABLES,
    "loadTable": Op.LOAD_TABLE,
    "tableExists": Op.CHECK_EXISTS_TABLE,
    "planTableScan": Op.LOAD_TABLE,
    "fetchPlanningResult": Op.LOAD_TABLE,
    "fetchScanTasks": Op.LOAD_TABLE,
    "getTableMetadataLocation": Op.LOAD_TABLE,
    "listTableRefs": Op.LOAD_TABLE,
    "exportTable": Op.LOAD_TABLE,
    "diagnoseTable": Op.LOAD_TABLE,
    "discoverTables": Op.LIST_TABLES,
    "getMigration": Op.LOAD_TABLE,
    "getTableBridge": Op.LOAD_TABLE,
    "getTableProtection": Op.LOAD_TABLE,
    "getMaintenanceConfig": Op.LOAD_TABLE,
    "getMaintenanceJob": Op.LOAD_TABLE,
    "getMaintenanceScheduler": Op.LOAD_TABLE,
    "listMetrics": Op.LOAD_TABLE,
    "getTableHealth": Op.LOAD_TABLE,
    "getTablePlan": Op.LOAD_TABLE,
    "dropTable": Op.DROP_TABLE,
    "unregisterTable": Op.DROP_TABLE,
    "purgeDropped": Op.DROP_TABLE,
    "registerTable": Op.REGISTER_TABLE,
    "importTable": Op.REGISTER_TABLE,
    "restoreDropped": Op.REGISTER_TABLE,
    "renameTable": Op.RENAME_TABLE,
    "updateTable": Op.UPDATE_TABLE,
    "setTableRef": Op.UPDATE_TABLE,
    "deleteTableRef": Op.UPDATE_TABLE,
    "updateTableMetadataLocation": Op.UPDATE_TABLE,
    "rollBackTable": Op.UPDATE_TABLE,
    "recoverTable": Op.UPDATE_TABLE,
    "startMigration": Op.UPDATE_TABLE,
    "cancelMigration": Op.UPDATE_TABLE,
    "putTableBridge": Op.UPDATE_TABLE,
    "deleteTableBridge": Op.UPDATE_TABLE,
    "protectTable": Op.UPDATE_TABLE,
    "putMaintenanceConfig": Op.UPDATE_TABLE,
    "deleteMaintenanceConfig": Op.UPDATE_TABLE,
    "runMaintenance": Op.UPDATE_TABLE,
    "runMaintenanceScheduler": Op.UPDATE_TABLE,
    "decideQuarantine": Op.UPDATE_TABLE,
    "syncTableBridge": Op.REFRESH_TABLE,
    # Views.
    "createView": Op.CREATE_VIEW,
    "listViews": Op.LIST_VIEWS,
    "loadView": Op.LOAD_VIEW,
    "getViewProtection": Op.LOAD_VIEW,
    "viewExists": Op.CHECK_EXISTS_VIEW,
    "dropView": Op.DROP_VIEW,
    "renameView": Op.RENAME_VIEW,
    "replaceView": Op.REPLACE_VIEW,
    "protectView": Op.REPLACE_VIEW,
    "registerView": Op.REGISTER_VIEW,
    # Vended credentials and remote signing.
    "loadCredentials": Op.LOAD_CREDENTIALS,
    "signRequest": Op.LOAD_CREDENTIALS,
    "signS3Request": Op.LOAD_CREDENTIALS,
    "signCatalogRequest": Op.LOAD_CREDENTIALS,
    # Transactions over several tables; notifications from other catalogs.
    "commitTransaction": Op.COMMIT_TRANSACTION,
    "sendNotification": Op.SEND_NOTIFICATION,
    # Policies of the catalog.
    "createPolicy": Op.CREATE_POLICY,
    "listPolicies": Op.LIST_POLICIES,
    "loadPolicy": Op.LOAD_POLICY,
    "listPolicyMappings": Op.LOAD_POLICY,
    "listPolicyVersions": Op.LOAD_POLICY,
    "loadPolicyVersion": Op.LOAD_POLICY,
    "listPolicyTargets": Op.LOAD_POLICY,
    "getPolicyEffect": Op.LOAD_POLICY,
    "updatePolicy": Op.UPDATE_POLICY,
    "patchPolicy": Op.UPDATE_POLICY,
    "dropPolicy": Op.DROP_POLICY,
    "attachPolicy": Op.ATTACH_POLICY,
    "detachPolicy": Op.DETACH_POLICY,
    "getApplicablePolicies": Op.GET_APPLICABLE_POLICIES,
    "listTablePolicies": Op.GET_APPLICABLE_POLICIES,
    # Generic tables.
    "createGenericTable": Op.CREATE_GENERIC_TABLE,
    "dropGenericTable": Op.DROP_GENERIC_TABLE,
    "listGenericTables": Op.LIST_GENERIC_TABLES,
    "loadGenericTable": Op.LOAD_GENERIC_TABLE,
    # Principals.
    "createPrincipal": Op.CREATE_PRINCIPAL,
    "deletePrincipal": Op.DELETE_PRINCIPAL,
    "getPrincipal": Op.GET_PRINCIPAL,
    "updatePrincipal": Op.UPDATE_PRINCIPAL,
    "rotateCredentials": Op.ROTATE_CREDENTIALS,
    "resetCredentials": Op.RESET_CREDENTIALS,
    "listPrincipals": Op.LIST_PRINCIPALS,
    "assignPrincipalRole": Op.ASSIGN_PRINCIPAL_ROLE,
    "revokePrincipalRole": Op.REVOKE_PRINCIPAL_ROLE,
    "listPrincipalRolesAssigned": Op.LIST_ASSIGNED_PRINCIPAL_ROLES,
    # Principal roles.
    "createPrincipalRole": Op.CREATE_PRINCIPAL_ROLE,
    "deletePrincipalRole": Op.DELETE_PRINCIPAL_ROLE,
    "getPrincipalRole": Op.GET_PRINCIPAL_ROLE,
    "updatePrincipalRole": Op.UPDATE_PRINCIPAL_ROLE,
    "listPrincipalRoles": Op.LIST_PRINCIPAL_ROLES,
    "assignCatalogRoleToPrincipalRole": Op.ASSIGN_CATALOG_ROLE_TO_PRINCIPAL_ROLE,
    "revokeCatalogRoleFromPrincipalRole": Op.REVOKE_CATALOG_ROLE_FROM_PRINCIPAL_ROLE,
    "listAssigneePrincipalsForPrincipalRole": Op.LIST_ASSIGNEE_PRINCIPALS_FOR_PRINCIPAL_ROLE,
    "listCatalogRolesForPrincipalRole": Op.LIST_CATALOG_ROLES_FOR_PRINCIPAL_ROLE,
    # Catalog roles.
    "createCatalogRole": Op.CREATE_CATALOG_ROLE,
    "deleteCatalogRole": Op.DELETE_CATALOG_ROLE,
    "getCatalogRole": Op.GET_CATALOG_ROLE,
    "updateCatalogRole": Op.UPDATE_CATALOG_ROLE,
    "listCatalogRoles": Op.LIST_CATALOG_ROLES,
    "addGrantToCatalogRole": Op.ADD_GRANT_TO_CATALOG_ROLE,
    "revokeGrantFromCatalogRole": Op.REVOKE_GRANT_FROM_CATALOG_ROLE,
    "listAssigneePrincipalRolesForCatalogRole": Op.LIST_ASSIGNEE_PRINCIPAL_ROLES_FOR_CATALOG_ROLE,
    "listGrantsForCatalogRole": Op.LIST_GRANTS_FOR_CATALOG_ROLE,
    # Maintenance tasks.
    "claimTasks": Op.ATTEMPT_TASK,
    "runMaintenanceWorker": Op.ATTEMPT_TASK,
}
"""By the name of the route."""

ROUTES_WITHOUT_OPERATION: Final = frozenset(
    {
        # Discards the result of a plan, and changes nothing.
        "cancelPlanning",
        # Metrics that engines report.
        "reportMetrics",
        # A policy type has no effect by itself; its policies have.
        "listPolicyTypes",
        "createPolicyType",
        "loadPolicyType",
        "dropPolicyType",
        # Submitting tasks: listeners are called when a task changes a table.
        "listTasks",
        "submitTask",
        "getTask",
        "redriveTask",
        "enactTablePlan",
        # Administration of stream servers: no operation family covers it.
        "getStreamStatus",
        "forgetStreamServer",
        # For a task that a worker has already leased.
        "heartbeatTask",
        "completeTask",
        "failTask",
        "heartbeatMaintenanceJob",
        # Events, the audit log and event targets.
        "listEvents",
        "listAudit",
        "streamEvents",
        "listTargets",
        "listTargetArns",
        "getTarget",
        "putTarget",
        "deleteTarget",
        "testTarget",
        "pauseTarget",
        "resumeTarget",
        "listTargetDeliveries",
        "redriveTarget",
        # Arrived files, for ingestion workers; records of vended credentials.
        "listArrivals",
        "takeArrivals",
        "listDelegations",
        "getDelegation",
        "listDelegatedAccesses",
        "listObjectAccesses",
        # Labels and owners, which grant no permission.
        "findLabelled",
        *(f"{verb}{kind}Labels" for verb in ("get", "change") for kind in _LABELLED),
        # Not supported: always fail.
        "listFunctions",
        "loadFunction",
    }
)
"""Routes without an operation."""

OPERATIONS_WITHOUT_ROUTE: Final = frozenset({Op.REFRESH_VIEW, Op.LIMIT_REQUEST_RATE})
"""Operations without a route: views have no bridges to refresh, and rate limits are not requested."""
