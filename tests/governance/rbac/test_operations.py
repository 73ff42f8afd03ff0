from __future__ import annotations

import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.governance.rbac.operations import (
    ACTION_PRIVILEGES,
    GENERIC_TABLE_OPERATIONS,
    LABEL_OPERATIONS,
    MANAGEMENT_OPERATIONS,
    NAMESPACE_OPERATIONS,
    OPERATIONS,
    POLICY_OPERATIONS,
    TABLE_OPERATIONS,
    UPDATE_PRIVILEGES,
    VIEW_OPERATIONS,
    action_privileges,
    commit_privileges,
)
from lakebed.governance.rbac.privileges import INCLUDES, TABLE_UPDATES, GrantKind, Privilege
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.management.operations import management_mount
from lakebed.wire.polaris.operations import polaris_routes

P = Privilege


def test_every_catalog_action_has_required_privileges() -> None:
    assert set(ACTION_PRIVILEGES) == set(Action)


def test_every_standard_operation_has_required_privileges() -> None:
    words = {operation.partition(" ")[0] for operation in OPERATIONS}
    served = {
        route.name for routes in (catalog_routes(), polaris_routes()) for route in routes.routes if route.is_standard
    }
    served |= {route.name for route in management_mount().routes.routes}
    # It only describes the server, or the named catalog, which has an action of its own.
    assert served - words == {"getConfig"}


def test_every_operation_requires_a_privilege() -> None:
    assert all(needs.target for needs in OPERATIONS.values())


def test_operation_families_are_disjoint() -> None:
    families = (
        NAMESPACE_OPERATIONS,
        TABLE_OPERATIONS,
        VIEW_OPERATIONS,
        POLICY_OPERATIONS,
        GENERIC_TABLE_OPERATIONS,
        LABEL_OPERATIONS,
        MANAGEMENT_OPERATIONS,
    )
    assert len(OPERATIONS) == sum(map(len, families))


@pytest.mark.parametrize(
    ("operation", "target", "secondary"),
    [
        ("renameTable", {P.TABLE_DROP}, {P.TABLE_LIST, P.TABLE_CREATE}),
        ("dropTable purge", {P.TABLE_DROP, P.TABLE_WRITE_DATA}, set()),
        ("registerTable overwrite", {P.TABLE_FULL_METADATA}, set()),
        ("commitTransaction", {P.TABLE_WRITE_PROPERTIES, P.TABLE_CREATE}, set()),
        ("namespaceExists", {P.NAMESPACE_LIST}, set()),
        ("tableExists", {P.TABLE_LIST}, set()),
        ("viewExists", {P.VIEW_LIST}, set()),
        ("reportMetrics scan", {P.TABLE_READ_DATA}, set()),
        ("reportMetrics commit", {P.TABLE_WRITE_DATA}, set()),
        ("attachPolicy namespace", {P.POLICY_ATTACH}, {P.NAMESPACE_ATTACH_POLICY}),
        ("getApplicablePolicies table", {P.TABLE_READ_PROPERTIES}, set()),
        ("addGrantToCatalogRole table", {P.TABLE_MANAGE_GRANTS_ON_SECURABLE}, set()),
        (
            "revokeGrantFromCatalogRole view",
            {P.VIEW_MANAGE_GRANTS_ON_SECURABLE},
            {P.CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE},
        ),
        (
            "revokePrincipalRole",
            {P.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE},
            {P.PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE},
        ),
    ],
)
def test_unusual_operations(operation: str, target: set[Privilege], secondary: set[Privilege]) -> None:
    needs = OPERATIONS[operation]
    assert (set(needs.target), set(needs.secondary)) == (target, secondary)


@pytest.mark.parametrize(
    ("action", "kind", "privileges"),
    [
        (Action.GET_TABLE_DATA, GrantKind.TABLE, {P.TABLE_READ_DATA}),
        (Action.PUT_TABLE_DATA, GrantKind.TABLE, {P.TABLE_WRITE_DATA}),
        (Action.CREATE_TABLE, GrantKind.TABLE, {P.TABLE_CREATE}),
        (Action.CREATE_TABLE, GrantKind.VIEW, {P.VIEW_CREATE}),
        (Action.LIST_TABLES, GrantKind.TABLE, {P.TABLE_LIST}),
        (Action.LIST_TABLES, GrantKind.VIEW, {P.VIEW_LIST}),
        (Action.DELETE_TABLE, GrantKind.VIEW, {P.VIEW_DROP}),
        (Action.UPDATE_METADATA_LOCATION, GrantKind.VIEW, {P.VIEW_WRITE_PROPERTIES}),
        (Action.GET_MAINTENANCE, GrantKind.CATALOG, {P.CATALOG_READ_PROPERTIES}),
        (Action.GET_MAINTENANCE, GrantKind.TABLE, {P.TABLE_READ_PROPERTIES}),
        (Action.ATTACH_POLICY, GrantKind.POLICY, {P.POLICY_ATTACH}),
        (Action.ATTACH_POLICY, GrantKind.CATALOG, {P.CATALOG_ATTACH_POLICY}),
        (Action.DETACH_POLICY, GrantKind.NAMESPACE, {P.NAMESPACE_DETACH_POLICY}),
        (Action.ATTACH_POLICY, GrantKind.VIEW, {P.TABLE_ATTACH_POLICY}),
        (Action.CONFIGURE_BRIDGE, GrantKind.TABLE, set()),
        (Action.GET_LABELS, GrantKind.CATALOG, {P.CATALOG_READ_PROPERTIES}),
        (Action.SET_LABELS, GrantKind.TABLE, {P.TABLE_WRITE_PROPERTIES}),
        (Action.SET_LABELS, GrantKind.POLICY, {P.POLICY_WRITE}),
        ("s3:GetObject", GrantKind.TABLE, set()),
    ],
)
def test_required_privileges_depend_on_the_kind_of_target(
    action: str, kind: GrantKind, privileges: set[Privilege]
) -> None:
    assert set(action_privileges(action, kind)) == privileges


def test_view_actions_do_not_require_table_privileges() -> None:
    for action in Action:
        required = action_privileges(action, GrantKind.VIEW)
        if action in (Action.GET_TABLE_DATA, Action.PUT_TABLE_DATA, Action.ATTACH_POLICY, Action.DETACH_POLICY):
            continue
        if (
            "Maintenance" in action or action is Action.SEND_NOTIFICATION
        ):  # actions on catalogs; the others apply only to tables
            continue
        assert not any(privilege.name.startswith("TABLE_") for privilege in required), action


def test_each_update_privilege_belongs_to_one_update() -> None:
    assert set(UPDATE_PRIVILEGES.values()) == TABLE_UPDATES
    assert len(UPDATE_PRIVILEGES) == len(TABLE_UPDATES)


def test_commit_requires_the_privileges_of_its_updates() -> None:
    assert commit_privileges(["add-schema", "set-current-schema", "add-schema"]) == (
        P.TABLE_ADD_SCHEMA,
        P.TABLE_SET_CURRENT_SCHEMA,
    )
    # Updates without a privilege of their own, unknown updates, and commits without updates.
    assert commit_privileges(["add-encryption-key"]) == (P.TABLE_WRITE_PROPERTIES,)
    assert commit_privileges(["set-properties", "whatever"]) == (P.TABLE_WRITE_PROPERTIES, P.TABLE_SET_PROPERTIES)
    assert commit_privileges([]) == (P.TABLE_WRITE_PROPERTIES,)


def test_write_data_includes_every_commit() -> None:
    assert set(commit_privileges([*UPDATE_PRIVILEGES, "remove-schemas"])) <= INCLUDES[P.TABLE_WRITE_DATA]
    assert not set(commit_privileges(["add-snapshot"])) <= INCLUDES[P.TABLE_MANAGE_STRUCTURE]
