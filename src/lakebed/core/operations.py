"""Catalog operations for hooks and the audit log: names, families, and the operation of the current request.

    BEFORE_X   listeners are called before operation X begins; each can veto it
    AFTER_X    events of operation X, written to the outbox in the transaction of the change

Different routes can be the same operation: registering, importing and restoring a table are all `REGISTER_TABLE`.
Events have their own kinds and carry the operation's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from enum import StrEnum
from typing import Final

from .errors import InvalidInput

BEFORE: Final = "BEFORE_"
AFTER: Final = "AFTER_"


class OperationFamily(StrEnum):
    """The kind of entity that an operation is on."""

    CATALOG = "CATALOG"
    CATALOG_ROLE = "CATALOG_ROLE"
    PRINCIPAL = "PRINCIPAL"
    PRINCIPAL_ROLE = "PRINCIPAL_ROLE"
    NAMESPACE = "NAMESPACE"
    TABLE = "TABLE"
    VIEW = "VIEW"
    CREDENTIAL = "CREDENTIAL"
    TRANSACTION = "TRANSACTION"
    NOTIFICATION = "NOTIFICATION"
    CONFIG = "CONFIG"
    POLICY = "POLICY"
    GENERIC_TABLE = "GENERIC_TABLE"
    TASK_EXECUTION = "TASK_EXECUTION"
    RATE_LIMITING = "RATE_LIMITING"


class Operation(StrEnum):
    """An operation of the catalog APIs."""

    CREATE_CATALOG = "CREATE_CATALOG"
    DELETE_CATALOG = "DELETE_CATALOG"
    GET_CATALOG = "GET_CATALOG"
    UPDATE_CATALOG = "UPDATE_CATALOG"
    LIST_CATALOGS = "LIST_CATALOGS"

    CREATE_CATALOG_ROLE = "CREATE_CATALOG_ROLE"
    DELETE_CATALOG_ROLE = "DELETE_CATALOG_ROLE"
    GET_CATALOG_ROLE = "GET_CATALOG_ROLE"
    UPDATE_CATALOG_ROLE = "UPDATE_CATALOG_ROLE"
    LIST_CATALOG_ROLES = "LIST_CATALOG_ROLES"
    ADD_GRANT_TO_CATALOG_ROLE = "ADD_GRANT_TO_CATALOG_ROLE"
    REVOKE_GRANT_FROM_CATALOG_ROLE = "REVOKE_GRANT_FROM_CATALOG_ROLE"
    LIST_ASSIGNEE_PRINCIPAL_ROLES_FOR_CATALOG_ROLE = "LIST_ASSIGNEE_PRINCIPAL_ROLES_FOR_CATALOG_ROLE"
    LIST_GRANTS_FOR_CATALOG_ROLE = "LIST_GRANTS_FOR_CATALOG_ROLE"

    CREATE_PRINCIPAL = "CREATE_PRINCIPAL"
    DELETE_PRINCIPAL = "DELETE_PRINCIPAL"
    GET_PRINCIPAL = "GET_PRINCIPAL"
    UPDATE_PRINCIPAL = "UPDATE_PRINCIPAL"
    ROTATE_CREDENTIALS = "ROTATE_CREDENTIALS"
    RESET_CREDENTIALS = "RESET_CREDENTIALS"
    LIST_PRINCIPALS = "LIST_PRINCIPALS"
    ASSIGN_PRINCIPAL_ROLE = "ASSIGN_PRINCIPAL_ROLE"
    REVOKE_PRINCIPAL_ROLE = "REVOKE_PRINCIPAL_ROLE"
    LIST_ASSIGNED_PRINCIPAL_ROLES = "LIST_ASSIGNED_PRINCIPAL_ROLES"

    CREATE_PRINCIPAL_ROLE = "CREATE_PRINCIPAL_ROLE"
    DELETE_PRINCIPAL_ROLE = "DELETE_PRINCIPAL_ROLE"
    GET_PRINCIPAL_ROLE = "GET_PRINCIPAL_ROLE"
    UPDATE_PRINCIPAL_ROLE = "UPDATE_PRINCIPAL_ROLE"
    LIST_PRINCIPAL_ROLES = "LIST_PRINCIPAL_ROLES"
    ASSIGN_CATALOG_ROLE_TO_PRINCIPAL_ROLE = "ASSIGN_CATALOG_ROLE_TO_PRINCIPAL_ROLE"
    REVOKE_CATALOG_ROLE_FROM_PRINCIPAL_ROLE = "REVOKE_CATALOG_ROLE_FROM_PRINCIPAL_ROLE"
    LIST_ASSIGNEE_PRINCIPALS_FOR_PRINCIPAL_ROLE = "LIST_ASSIGNEE_PRINCIPALS_FOR_PRINCIPAL_ROLE"
    LIST_CATALOG_ROLES_FOR_PRINCIPAL_ROLE = "LIST_CATALOG_ROLES_FOR_PRINCIPAL_ROLE"

    CREATE_NAMESPACE = "CREATE_NAMESPACE"
    LIST_NAMESPACES = "LIST_NAMESPACES"
    LOAD_NAMESPACE_METADATA = "LOAD_NAMESPACE_METADATA"
    CHECK_EXISTS_NAMESPACE = "CHECK_EXISTS_NAMESPACE"
    DROP_NAMESPACE = "DROP_NAMESPACE"
    UPDATE_NAMESPACE_PROPERTIES = "UPDATE_NAMESPACE_PROPERTIES"

    CREATE_TABLE = "CREATE_TABLE"
    LIST_TABLES = "LIST_TABLES"
    LOAD_TABLE = "LOAD_TABLE"
    CHECK_EXISTS_TABLE = "CHECK_EXISTS_TABLE"
    DROP_TABLE = "DROP_TABLE"
    REGISTER_TABLE = "REGISTER_TABLE"
    RENAME_TABLE = "RENAME_TABLE"
    UPDATE_TABLE = "UPDATE_TABLE"
    REFRESH_TABLE = "REFRESH_TABLE"

    CREATE_VIEW = "CREATE_VIEW"
    LIST_VIEWS = "LIST_VIEWS"
    LOAD_VIEW = "LOAD_VIEW"
    CHECK_EXISTS_VIEW = "CHECK_EXISTS_VIEW"
    DROP_VIEW = "DROP_VIEW"
    RENAME_VIEW = "RENAME_VIEW"
    REPLACE_VIEW = "REPLACE_VIEW"
    REFRESH_VIEW = "REFRESH_VIEW"
    REGISTER_VIEW = "REGISTER_VIEW"

    LOAD_CREDENTIALS = "LOAD_CREDENTIALS"

    COMMIT_TRANSACTION = "COMMIT_TRANSACTION"

    SEND_NOTIFICATION = "SEND_NOTIFICATION"

    GET_CONFIG = "GET_CONFIG"

    CREATE_POLICY = "CREATE_POLICY"
    LIST_POLICIES = "LIST_POLICIES"
    LOAD_POLICY = "LOAD_POLICY"
    UPDATE_POLICY = "UPDATE_POLICY"
    DROP_POLICY = "DROP_POLICY"
    ATTACH_POLICY = "ATTACH_POLICY"
    DETACH_POLICY = "DETACH_POLICY"
    GET_APPLICABLE_POLICIES = "GET_APPLICABLE_POLICIES"

    CREATE_GENERIC_TABLE = "CREATE_GENERIC_TABLE"
    DROP_GENERIC_TABLE = "DROP_GENERIC_TABLE"
    LIST_GENERIC_TABLES = "LIST_GENERIC_TABLES"
    LOAD_GENERIC_TABLE = "LOAD_GENERIC_TABLE"

    ATTEMPT_TASK = "ATTEMPT_TASK"

    LIMIT_REQUEST_RATE = "LIMIT_REQUEST_RATE"
    """Not requested and without veto: audit records of throttled requests have it."""

    @property
    def family(self) -> OperationFamily:
        """The kind of entity that it is on."""
        return _FAMILY_OF[self]

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing, so that it emits an event only if the settings list it."""
        return self.value.startswith(_READS)

    @property
    def before(self) -> str:
        """`BEFORE_X`."""
        return BEFORE + self.value

    @property
    def after(self) -> str:
        """`AFTER_X`."""
        return AFTER + self.value


_READS: Final = ("GET_", "LIST_", "LOAD_", "CHECK_EXISTS_")

_FIRSTS: Final[Mapping[Operation, OperationFamily]] = {
    Operation.CREATE_CATALOG: OperationFamily.CATALOG,
    Operation.CREATE_CATALOG_ROLE: OperationFamily.CATALOG_ROLE,
    Operation.CREATE_PRINCIPAL: OperationFamily.PRINCIPAL,
    Operation.CREATE_PRINCIPAL_ROLE: OperationFamily.PRINCIPAL_ROLE,
    Operation.CREATE_NAMESPACE: OperationFamily.NAMESPACE,
    Operation.CREATE_TABLE: OperationFamily.TABLE,
    Operation.CREATE_VIEW: OperationFamily.VIEW,
    Operation.LOAD_CREDENTIALS: OperationFamily.CREDENTIAL,
    Operation.COMMIT_TRANSACTION: OperationFamily.TRANSACTION,
    Operation.SEND_NOTIFICATION: OperationFamily.NOTIFICATION,
    Operation.GET_CONFIG: OperationFamily.CONFIG,
    Operation.CREATE_POLICY: OperationFamily.POLICY,
    Operation.CREATE_GENERIC_TABLE: OperationFamily.GENERIC_TABLE,
    Operation.ATTEMPT_TASK: OperationFamily.TASK_EXECUTION,
    Operation.LIMIT_REQUEST_RATE: OperationFamily.RATE_LIMITING,
}
"""The first operation of each family; those up to the next entry belong to it too."""


def _families() -> dict[Operation, OperationFamily]:
    found: dict[Operation, OperationFamily] = {}
    family = OperationFamily.CATALOG
    for operation in Operation:
        family = _FIRSTS.get(operation, family)
        found[operation] = family
    return found


_FAMILY_OF: Final = _families()

current_operation: ContextVar[str] = ContextVar("lakebed_operation", default="")
"""The operation of the current request; empty for background work of the server.

The outbox adds it to every event, so that use cases need not pass it on.
"""


def parse_operations(words: Iterable[str]) -> frozenset[Operation]:
    """Operations by name (`DROP_TABLE`), prefix (`DROP_*`) or family (`POLICY`). `*` is all.

    A leading `BEFORE_` is ignored. Raises InvalidInput for an unknown name.
    """
    found: set[Operation] = set()
    for word in words:
        named = _named(word.strip().upper().removeprefix(BEFORE))
        if not named:
            raise InvalidInput(f"unknown operation. found={word!r}", argument="operations", value=word)
        found |= named
    return frozenset(found)


def _named(word: str) -> set[Operation]:
    if word.endswith("*"):
        return {operation for operation in Operation if operation.value.startswith(word[:-1])}
    return {operation for operation in Operation if word in (operation.value, _FAMILY_OF[operation].value)}
