"""The question asked before every operation of the catalog, in the words of S3 Tables' policies.

Actions and resources are those of `s3tables:` policies, so that documents written for that service mean here what they
mean there. The resource policy is the bucket's.

Callers who hold roles are asked about in the words of grants besides (ADR 16): the way to the thing, and the privileges
that the action takes on it.
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
    """What may be allowed or denied."""

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
    """Not among the actions of S3 Tables, so that `s3tables:*` does not allow it: it makes the server call others."""
    CONFIGURE_CONNECTION = "lakebed:ConfigureConnection"
    """What is behind a catalog. Neither is it one of S3 Tables'."""
    SEND_NOTIFICATION = "lakebed:SendNotification"
    """To tell an external catalog of its tables: asked of the catalog, whatever is told."""
    CREATE_POLICY = "lakebed:CreatePolicy"
    READ_POLICY = "lakebed:ReadPolicy"
    UPDATE_POLICY = "lakebed:UpdatePolicy"
    DROP_POLICY = "lakebed:DropPolicy"
    LIST_POLICIES = "lakebed:ListPolicies"
    ATTACH_POLICY = "lakebed:AttachPolicy"
    """Asked twice, as the next is: of the namespace in which the policy lives, and of what it is attached to."""
    DETACH_POLICY = "lakebed:DetachPolicy"
    CREATE_POLICY_TYPE = "lakebed:CreatePolicyType"
    DROP_POLICY_TYPE = "lakebed:DropPolicyType"
    GET_LABELS = "lakebed:GetLabels"
    SET_LABELS = "lakebed:SetLabels"
    """Tags and owners, of catalogs and what is in them. Of users and roles they are asked for on the service."""


CREATE_OR_MOVE: Final = f"{Action.CREATE_TABLE} or {Action.UPDATE_METADATA_LOCATION}"
"""What is asked of a name that gets a metadata file, whether it has one or not."""


_MAKES: Final = frozenset({Action.CREATE_TABLE, Action.CREATE_NAMESPACE})
"""What grants are asked about on where the new thing will be, whether something has its name already or not."""

Privileges = tuple[Privilege, ...]


class ServerAction(StrEnum):
    """What may be allowed or denied of the server as a whole: the resource is `*`."""

    LIST_TASKS = "lakebed:ListTasks"
    SUBMIT_TASK = "lakebed:SubmitTask"
    RUN_TASKS = "lakebed:RunTasks"
    """To claim tasks and to end them, as workers do."""
    READ_EVENTS = "lakebed:ReadEvents"


class CatalogAuthorizer:
    """Asks the one authorizer."""

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
        """Return if the caller may do `action` on the warehouse, or on a name in it. Raises AccessDenied.

        `entry_id` is of an entry that is promised and not there. A refusal is in the same words whether something has
        the name or nothing; `reported_action` is what it calls the action, where that depends on it.

        The rest is for who holds grants: `kind` is what the name is thought to be of, or what is made or listed, and a
        table unless told otherwise; `privileges` are what it takes where that is not what the action takes; `securable`
        is what they are to be held on, where that is not what the other arguments name.
        """
        if is_copies_namespace(namespace):
            # What is in there was made for some, and shows more than others may see.
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
        reads_facts = self._f.reads_facts
        try:
            if caller.principal.grants is None and not reads_facts:
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
                    target=target_of(catalog, namespace, name) if reads_facts else None,
                )
        except AccessDenied as error:
            # Its text has the resource, which is another where there is a table: who may not ask would learn that.
            why = str(error).partition(". principal=")[0]
            asked = "".join(f" {key}={value}" for key, value in facts.items())
            raise AccessDenied(
                f"{why}. action={reported_action or action} table-bucket={catalog.name}{asked}"
            ) from error

    def could_allow(self, caller: Caller, rules: ResourceRules, catalog: int, actions: Iterable[Action]) -> bool:
        """Whether the caller could be allowed one of the actions on something in a catalog with these rules."""
        root = namespace_securable(catalog, ())
        return any(
            self._f.authorizer.could_allow(AccessRequest(caller.principal, action, "", securable=root), rules)
            for action in actions
        )

    async def visible_names(
        self, caller: Caller, catalog: Catalog, namespace: Levels, names: Sequence[str]
    ) -> Sequence[str]:
        """The tables or views that a list of a namespace shows to a caller who may see it. Raises Unavailable."""
        if not self._f.authorizer.filters_lists or not names:
            return names
        targets = [target_of(catalog, namespace, one) for one in names]
        seen = await self._visible(caller, catalog, Action.LIST_TABLES, namespace, targets)
        return [target.path[-1] for target in seen]

    async def visible_children(
        self, caller: Caller, catalog: Catalog, parent: Levels, children: Sequence[Levels]
    ) -> Sequence[Levels]:
        """The namespaces that a list of a place shows to a caller who may see it. Raises Unavailable."""
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
        """Return if the caller may do `action` on this server. Raises AccessDenied."""
        await self._f.authorize_account(caller, action, "*")

    async def can_run_tasks(self, caller: Caller) -> bool:
        """Whether the caller may work for the server, whatever the keys that it calls with are confined to."""
        who = caller._replace(principal=replace(caller.principal, session=None))
        try:
            await self.check_server(who, ServerAction.RUN_TASKS)
        except AccessDenied:
            return False
        return True

    async def allows(
        self, caller: Caller, catalog: Catalog, action: Action, *, namespace: Levels = (), entry: Entry
    ) -> bool:
        """Whether the caller may, for answers that depend on it."""
        try:
            await self.check(caller, catalog, action, namespace=namespace, entry=entry)
        except AccessDenied:
            return False
        return True


def target_of(catalog: Catalog, namespace: Levels, name: str = "") -> AccessTarget:
    """A catalog, a namespace, or a table or view in it, by names."""
    if name:
        return AccessTarget("TABLE_LIKE", (catalog.name, *namespace, name))
    return AccessTarget("NAMESPACE" if namespace else "CATALOG", (catalog.name, *namespace))


def _securable(catalog: int, action: Action, namespace: Levels, entry: Entry | None) -> Securable:
    """What grants are asked about. Of an entry that is not there, promised or not, it is the namespace.

    The id of a promised one is told by who asks: were it looked at, somebody could tell that of a table of theirs.
    """
    if action in _MAKES:
        return namespace_securable(catalog, namespace[:-1] if action is Action.CREATE_NAMESPACE else namespace)
    if entry is None:
        return namespace_securable(catalog, namespace)
    return entry_securable(catalog, namespace, entry.id)


def _kind(kind: EntryKind | GrantKind | None, namespace: Levels, name: str, entry: Entry | None) -> GrantKind:
    if kind is None and entry is not None:
        kind = entry.kind
    if kind is not None:
        # Grants know tables of all formats by one word.
        return GrantKind.TABLE if kind is EntryKind.GENERIC_TABLE else GrantKind(kind)
    if name:
        return GrantKind.TABLE
    return GrantKind.NAMESPACE if namespace else GrantKind.CATALOG
