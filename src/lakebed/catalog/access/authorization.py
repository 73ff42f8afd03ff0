"""Authorizes catalog operations with the actions and resources of S3 Tables policies.

Actions and resources are those of `s3tables:` policies, so that documents written for that service keep their meaning.
The resource policy is the bucket's. For callers with roles, the action also requires privileges on a securable (ADR
16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from lakebed.core.access import AccessRequest, AccessTarget, ResourceRules, Securable
from lakebed.core.errors import AccessDenied
from lakebed.governance.rbac import (
    GrantKind,
    Privilege,
    action_privileges,
    entry_securable,
    namespace_securable,
)
from lakebed.objects.condition_context import ConditionKeys
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..identifiers import Levels, policy_value
from ..model import Catalog, Entry, EntryKind
from ..restrictions import is_copies_namespace


class Action(StrEnum):
    """An action on a catalog that policies can allow or deny."""

    CREATE_TABLE_BUCKET = "s3tables:CreateTableBucket"
    GET_TABLE_BUCKET = "s3tables:GetTableBucket"
    LIST_TABLE_BUCKETS = "s3tables:ListTableBuckets"
    CREATE_NAMESPACE = "s3tables:CreateNamespace"
    GET_NAMESPACE = "s3tables:GetNamespace"
    LIST_NAMESPACES = "s3tables:ListNamespaces"
    UPDATE_NAMESPACE = "s3tables:UpdateNamespace"
    DELETE_NAMESPACE = "s3tables:DeleteNamespace"
    LIST_TABLES = "s3tables:ListTables"
    CREATE_TABLE = "s3tables:CreateTable"
    GET_TABLE = "s3tables:GetTable"
    RENAME_TABLE = "s3tables:RenameTable"
    DELETE_TABLE = "s3tables:DeleteTable"
    GET_METADATA_LOCATION = "s3tables:GetTableMetadataLocation"
    UPDATE_METADATA_LOCATION = "s3tables:UpdateTableMetadataLocation"
    GET_TABLE_DATA = "s3tables:GetTableData"
    PUT_TABLE_DATA = "s3tables:PutTableData"
    GET_MAINTENANCE = "s3tables:GetTableMaintenanceConfiguration"
    PUT_MAINTENANCE = "s3tables:PutTableMaintenanceConfiguration"
    RUN_MAINTENANCE = "s3tables:RunTableMaintenance"
    CONFIGURE_BRIDGE = "lakebed:ConfigureBridge"
    """Not an S3 Tables action, so `s3tables:*` does not allow it: it makes the server call other hosts."""
    CONFIGURE_CONNECTION = "lakebed:ConfigureConnection"
    """To federate a catalog. Not an S3 Tables action either."""
    SEND_NOTIFICATION = "lakebed:SendNotification"
    """To notify an external catalog about its tables. Authorized on the catalog."""
    CREATE_POLICY = "lakebed:CreatePolicy"
    READ_POLICY = "lakebed:ReadPolicy"
    UPDATE_POLICY = "lakebed:UpdatePolicy"
    DROP_POLICY = "lakebed:DropPolicy"
    LIST_POLICIES = "lakebed:ListPolicies"
    ATTACH_POLICY = "lakebed:AttachPolicy"
    """Authorized twice, like the next: on the policy's namespace and on the target."""
    DETACH_POLICY = "lakebed:DetachPolicy"
    CREATE_POLICY_TYPE = "lakebed:CreatePolicyType"
    DROP_POLICY_TYPE = "lakebed:DropPolicyType"
    GET_LABELS = "lakebed:GetLabels"
    SET_LABELS = "lakebed:SetLabels"
    """Tags and owners of catalogs and their contents. For users and roles the resource is the service."""


CREATE_OR_MOVE: Final = f"{Action.CREATE_TABLE} or {Action.UPDATE_METADATA_LOCATION}"
"""The action in errors for a name that gets a metadata file, whether it has one or not."""


_CREATES: Final = frozenset({Action.CREATE_TABLE, Action.CREATE_NAMESPACE})
"""Actions that grants allow on the parent of the new entry, whether the name is in use or not."""

Privileges = tuple[Privilege, ...]


class ServerAction(StrEnum):
    """An action on the server as a whole: the resource is `*`."""

    LIST_TASKS = "lakebed:ListTasks"
    SUBMIT_TASK = "lakebed:SubmitTask"
    RUN_TASKS = "lakebed:RunTasks"
    """To lease and end tasks, as workers do."""
    READ_EVENTS = "lakebed:ReadEvents"


class CatalogAuthorizer:
    """Authorizes callers with the server's authorizer."""

    __slots__ = ("_f",)

    def __init__(self, object_context: ObjectContext) -> None:
        self._f = object_context

    async def check(
        self,
        caller: Caller,
        catalog: Catalog,
        action: Action,
        *,
        namespace: Levels = (),
        name: str = "",
        entry: Entry | None = None,
        entry_id: str = "",
        reported_action: str = "",
        kind: EntryKind | GrantKind | None = None,
        privileges: Privileges | None = None,
        securable: Securable | None = None,
    ) -> None:
        """Check the permission for `action` on the catalog, or on a name in it. Raises AccessDenied.

        `entry_id` is the id of a staged entry that does not exist yet. The error is the same whether the name is in use
        or not; `reported_action` is the action in it, where the action depends on that.

        The other arguments are for callers with grants: `kind` is the requested kind, by default a table; `privileges`
        replaces the privileges that the action requires; `securable` replaces the securable that the other arguments
        name.
        """
        if is_copies_namespace(namespace):
            # Restricted copies contain more than other callers may see.
            await self.check_server(caller, ServerAction.RUN_TASKS)
        rules = catalog.bucket.access_rules
        resource = catalog.arn
        if entry is not None:
            entry_id, name = entry.id, entry.name
        if entry_id:
            resource = f"{resource}/table/{entry_id}"
        facts: ConditionKeys = {}
        if namespace:
            facts["s3tables:namespace"] = policy_value(namespace)
        if name:
            facts["s3tables:tableName"] = name
        needs_full_context = self._f.needs_full_context
        try:
            if caller.principal.grants is None and not needs_full_context:
                await self._f.authorize_resource(caller, rules, action, resource, facts)
            else:
                await self._f.authorize_resource(
                    caller,
                    rules,
                    action,
                    resource,
                    facts,
                    securable=securable or _securable(catalog.id, action, namespace, entry),
                    privileges=(
                        action_privileges(action, _kind(kind, namespace, name, entry))
                        if privileges is None
                        else privileges
                    ),
                    target=target_of(catalog, namespace, name) if needs_full_context else None,
                )
        except AccessDenied as error:
            # Its text has the resource, which differs if the table exists: the caller must not learn that.
            why = str(error).partition(". principal=")[0]
            details = "".join(f" {key}={value}" for key, value in facts.items())
            raise AccessDenied(
                f"{why}. action={reported_action or action} table-bucket={catalog.name}{details}"
            ) from error

    def could_allow(self, caller: Caller, rules: ResourceRules, catalog: int, actions: Iterable[Action]) -> bool:
        """Whether the caller could have the permission for an action on anything in a catalog with these rules."""
        root = namespace_securable(catalog, ())
        return any(
            self._f.authorizer.could_allow(AccessRequest(caller.principal, action, "", securable=root), rules)
            for action in actions
        )

    async def visible_names(
        self, caller: Caller, catalog: Catalog, namespace: Levels, names: Sequence[str]
    ) -> Sequence[str]:
        """The tables or views that a listing shows to a caller that may list the namespace. Raises Unavailable."""
        if not self._f.authorizer.filters_lists or not names:
            return names
        targets = [target_of(catalog, namespace, one) for one in names]
        seen = await self._visible(caller, catalog, Action.LIST_TABLES, namespace, targets)
        return [target.path[-1] for target in seen]

    async def visible_children(
        self, caller: Caller, catalog: Catalog, parent: Levels, children: Sequence[Levels]
    ) -> Sequence[Levels]:
        """The namespaces that a listing shows to a caller that may list the parent. Raises Unavailable."""
        if not self._f.authorizer.filters_lists or not children:
            return children
        targets = [target_of(catalog, one) for one in children]
        seen = await self._visible(caller, catalog, Action.LIST_NAMESPACES, parent, targets)
        return [target.path[1:] for target in seen]

    async def _visible(
        self, caller: Caller, catalog: Catalog, action: Action, namespace: Levels, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        facts: ConditionKeys = {"s3tables:namespace": policy_value(namespace)} if namespace else {}
        return await self._f.filter_visible(caller, catalog.bucket.access_rules, action, catalog.arn, facts, targets)

    async def check_server(self, caller: Caller, action: ServerAction) -> None:
        """Check the permission for `action` on this server. Raises AccessDenied."""
        await self._f.authorize_account(caller, action, "*")

    async def can_run_tasks(self, caller: Caller) -> bool:
        """Whether the caller may run tasks, regardless of the session policy of its credentials."""
        without_session = caller._replace(principal=replace(caller.principal, session=None))
        try:
            await self.check_server(without_session, ServerAction.RUN_TASKS)
        except AccessDenied:
            return False
        return True

    async def allows(
        self, caller: Caller, catalog: Catalog, action: Action, *, namespace: Levels = (), entry: Entry
    ) -> bool:
        """Whether the caller has the permission, for responses that depend on it."""
        try:
            await self.check(caller, catalog, action, namespace=namespace, entry=entry)
        except AccessDenied:
            return False
        return True


def target_of(catalog: Catalog, namespace: Levels, name: str = "") -> AccessTarget:
    """A catalog, a namespace, or a table or view, as the target of a decision."""
    if name:
        return AccessTarget("TABLE_LIKE", (catalog.name, *namespace, name))
    return AccessTarget("NAMESPACE" if namespace else "CATALOG", (catalog.name, *namespace))


def _securable(catalog: int, action: Action, namespace: Levels, entry: Entry | None) -> Securable:
    """The securable that grants are checked on: for an entry that does not exist, its namespace.

    The id of a staged entry comes from the client, and could be the id of one of the client's own tables.
    """
    if action in _CREATES:
        return namespace_securable(catalog, namespace[:-1] if action is Action.CREATE_NAMESPACE else namespace)
    if entry is None:
        return namespace_securable(catalog, namespace)
    return entry_securable(catalog, namespace, entry.id)


def _kind(kind: EntryKind | GrantKind | None, namespace: Levels, name: str, entry: Entry | None) -> GrantKind:
    if kind is None and entry is not None:
        kind = entry.kind
    if kind is not None:
        # Grants do not distinguish table formats.
        return GrantKind.TABLE if kind is EntryKind.GENERIC_TABLE else GrantKind(kind)
    if name:
        return GrantKind.TABLE
    return GrantKind.NAMESPACE if namespace else GrantKind.CATALOG
