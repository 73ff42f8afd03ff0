"""Privileges: their numbers, what each can be granted on, and which other privileges each includes. Pure data.

Names, numbers and grant targets are those of Apache Polaris, so that its clients work unchanged. Privileges on streams
correspond to the ACL operations of Apache Fluss; the management API does not grant them (ADR 31). Numbers are stored
and must never be changed or reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Final

from lakebed.core.errors import InvalidInput


class Privilege(IntEnum):
    """A privilege that roles can have."""

    SERVICE_MANAGE_ACCESS = 1
    CATALOG_MANAGE_ACCESS = 2
    CATALOG_ROLE_USAGE = 3
    PRINCIPAL_ROLE_USAGE = 4
    NAMESPACE_CREATE = 5
    TABLE_CREATE = 6
    VIEW_CREATE = 7
    NAMESPACE_DROP = 8
    TABLE_DROP = 9
    VIEW_DROP = 10
    NAMESPACE_LIST = 11
    TABLE_LIST = 12
    VIEW_LIST = 13
    NAMESPACE_READ_PROPERTIES = 14
    TABLE_READ_PROPERTIES = 15
    VIEW_READ_PROPERTIES = 16
    NAMESPACE_WRITE_PROPERTIES = 17
    TABLE_WRITE_PROPERTIES = 18
    VIEW_WRITE_PROPERTIES = 19
    TABLE_READ_DATA = 20
    TABLE_WRITE_DATA = 21
    NAMESPACE_FULL_METADATA = 22
    TABLE_FULL_METADATA = 23
    VIEW_FULL_METADATA = 24
    CATALOG_CREATE = 25
    CATALOG_DROP = 26
    CATALOG_LIST = 27
    CATALOG_READ_PROPERTIES = 28
    CATALOG_WRITE_PROPERTIES = 29
    CATALOG_FULL_METADATA = 30
    CATALOG_MANAGE_METADATA = 31
    CATALOG_MANAGE_CONTENT = 32
    PRINCIPAL_LIST_GRANTS = 33
    PRINCIPAL_ROLE_LIST_GRANTS = 34
    CATALOG_ROLE_LIST_GRANTS = 35
    CATALOG_LIST_GRANTS = 36
    NAMESPACE_LIST_GRANTS = 37
    TABLE_LIST_GRANTS = 38
    VIEW_LIST_GRANTS = 39
    CATALOG_MANAGE_GRANTS_ON_SECURABLE = 40
    NAMESPACE_MANAGE_GRANTS_ON_SECURABLE = 41
    TABLE_MANAGE_GRANTS_ON_SECURABLE = 42
    VIEW_MANAGE_GRANTS_ON_SECURABLE = 43
    PRINCIPAL_CREATE = 44
    PRINCIPAL_DROP = 45
    PRINCIPAL_LIST = 46
    PRINCIPAL_READ_PROPERTIES = 47
    PRINCIPAL_WRITE_PROPERTIES = 48
    PRINCIPAL_FULL_METADATA = 49
    PRINCIPAL_MANAGE_GRANTS_ON_SECURABLE = 50
    PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE = 51
    PRINCIPAL_ROTATE_CREDENTIALS = 52
    PRINCIPAL_RESET_CREDENTIALS = 53
    PRINCIPAL_ROLE_CREATE = 54
    PRINCIPAL_ROLE_DROP = 55
    PRINCIPAL_ROLE_LIST = 56
    PRINCIPAL_ROLE_READ_PROPERTIES = 57
    PRINCIPAL_ROLE_WRITE_PROPERTIES = 58
    PRINCIPAL_ROLE_FULL_METADATA = 59
    PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE = 60
    PRINCIPAL_ROLE_MANAGE_GRANTS_FOR_GRANTEE = 61
    CATALOG_ROLE_CREATE = 62
    CATALOG_ROLE_DROP = 63
    CATALOG_ROLE_LIST = 64
    CATALOG_ROLE_READ_PROPERTIES = 65
    CATALOG_ROLE_WRITE_PROPERTIES = 66
    CATALOG_ROLE_FULL_METADATA = 67
    CATALOG_ROLE_MANAGE_GRANTS_ON_SECURABLE = 68
    CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE = 69
    POLICY_CREATE = 70
    POLICY_READ = 71
    POLICY_DROP = 72
    POLICY_WRITE = 73
    POLICY_LIST = 74
    POLICY_FULL_METADATA = 75
    POLICY_ATTACH = 76
    POLICY_DETACH = 77
    CATALOG_ATTACH_POLICY = 78
    NAMESPACE_ATTACH_POLICY = 79
    TABLE_ATTACH_POLICY = 80
    CATALOG_DETACH_POLICY = 81
    NAMESPACE_DETACH_POLICY = 82
    TABLE_DETACH_POLICY = 83
    POLICY_MANAGE_GRANTS_ON_SECURABLE = 84
    TABLE_ASSIGN_UUID = 85
    TABLE_UPGRADE_FORMAT_VERSION = 86
    TABLE_ADD_SCHEMA = 87
    TABLE_SET_CURRENT_SCHEMA = 88
    TABLE_ADD_PARTITION_SPEC = 89
    TABLE_ADD_SORT_ORDER = 90
    TABLE_SET_DEFAULT_SORT_ORDER = 91
    TABLE_ADD_SNAPSHOT = 92
    TABLE_SET_SNAPSHOT_REF = 93
    TABLE_REMOVE_SNAPSHOTS = 94
    TABLE_REMOVE_SNAPSHOT_REF = 95
    TABLE_SET_LOCATION = 96
    TABLE_SET_PROPERTIES = 97
    TABLE_REMOVE_PROPERTIES = 98
    TABLE_SET_STATISTICS = 99
    TABLE_REMOVE_STATISTICS = 100
    TABLE_REMOVE_PARTITION_SPECS = 101
    TABLE_MANAGE_STRUCTURE = 102
    STREAM_READ = 103
    STREAM_WRITE = 104
    STREAM_CREATE = 105
    STREAM_DROP = 106
    STREAM_ALTER = 107
    STREAM_DESCRIBE = 108
    STREAM_ALL = 109


class GrantKind(StrEnum):
    """The kinds of securables in a catalog that can have grants."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    POLICY = "policy"


def _named(*lines: str) -> frozenset[Privilege]:
    return frozenset(Privilege[name] for line in lines for name in line.split())


def _numbered(first: Privilege, last: Privilege) -> frozenset[Privilege]:
    return frozenset(Privilege(number) for number in range(first, last + 1))


TABLE_UPDATES: Final = _numbered(Privilege.TABLE_ASSIGN_UUID, Privilege.TABLE_REMOVE_PARTITION_SPECS)
"""One for each kind of update in a commit."""

_STRUCTURE: Final = TABLE_UPDATES - _named("TABLE_ADD_SNAPSHOT TABLE_SET_SNAPSHOT_REF")

_OF_POLICIES: Final = _named("POLICY_WRITE POLICY_READ POLICY_DROP POLICY_LIST POLICY_FULL_METADATA")
_OF_TABLES: Final = (
    _named(
        "TABLE_DROP TABLE_LIST TABLE_READ_PROPERTIES TABLE_WRITE_PROPERTIES TABLE_READ_DATA TABLE_WRITE_DATA",
        "TABLE_FULL_METADATA TABLE_MANAGE_STRUCTURE",
    )
    | TABLE_UPDATES
)
_OF_VIEWS: Final = _named("VIEW_DROP VIEW_LIST VIEW_READ_PROPERTIES VIEW_WRITE_PROPERTIES VIEW_FULL_METADATA")
_OF_NAMESPACES: Final = _named(
    "NAMESPACE_CREATE NAMESPACE_DROP NAMESPACE_LIST NAMESPACE_READ_PROPERTIES NAMESPACE_WRITE_PROPERTIES",
    "NAMESPACE_FULL_METADATA",
)
_IN_CONTAINERS: Final = (
    _named("CATALOG_MANAGE_ACCESS CATALOG_MANAGE_CONTENT CATALOG_MANAGE_METADATA")
    | _named("TABLE_CREATE VIEW_CREATE POLICY_CREATE")
    | _OF_NAMESPACES
    | _OF_TABLES
    | _OF_VIEWS
    | _OF_POLICIES
)

GRANTABLE: Final[Mapping[GrantKind, frozenset[Privilege]]] = {
    GrantKind.CATALOG: _IN_CONTAINERS
    | _named("CATALOG_READ_PROPERTIES CATALOG_WRITE_PROPERTIES CATALOG_ATTACH_POLICY CATALOG_DETACH_POLICY"),
    GrantKind.NAMESPACE: _IN_CONTAINERS | _named("NAMESPACE_ATTACH_POLICY NAMESPACE_DETACH_POLICY"),
    GrantKind.TABLE: _OF_TABLES | _named("CATALOG_MANAGE_ACCESS TABLE_ATTACH_POLICY TABLE_DETACH_POLICY"),
    GrantKind.VIEW: _OF_VIEWS | _named("CATALOG_MANAGE_ACCESS"),
    GrantKind.POLICY: _OF_POLICIES | _named("CATALOG_MANAGE_ACCESS POLICY_ATTACH POLICY_DETACH"),
}
"""Privileges by what the management API grants them on. Grants are inherited: one on tables is valid on a namespace."""


def _crud(noun: str, manager: str) -> dict[str, str]:
    """The inclusions among privileges of one kind, and the privilege that includes all of them."""
    return {
        manager: f"{noun}_FULL_METADATA",
        f"{noun}_FULL_METADATA": f"{noun}_CREATE {noun}_DROP {noun}_WRITE_PROPERTIES",
        f"{noun}_WRITE_PROPERTIES": f"{noun}_READ_PROPERTIES",
        f"{noun}_READ_PROPERTIES": f"{noun}_LIST",
        f"{noun}_CREATE": f"{noun}_LIST",
    }


def _all_of(*parts: Mapping[str, str]) -> dict[Privilege, frozenset[Privilege]]:
    edges: dict[Privilege, frozenset[Privilege]] = {}
    for part in parts:
        for source, included in part.items():
            edges[Privilege[source]] = edges.get(Privilege[source], frozenset()) | _named(included)
    return edges


DIRECTLY_INCLUDED: Final[Mapping[Privilege, frozenset[Privilege]]] = _all_of(
    # Contents of catalogs. No metadata privilege includes data access.
    {"CATALOG_MANAGE_CONTENT": "CATALOG_MANAGE_METADATA TABLE_WRITE_DATA"},
    {"TABLE_WRITE_DATA": "TABLE_READ_DATA TABLE_WRITE_PROPERTIES", "TABLE_READ_DATA": "TABLE_READ_PROPERTIES"},
    {"CATALOG_MANAGE_METADATA": "CATALOG_WRITE_PROPERTIES POLICY_FULL_METADATA POLICY_ATTACH POLICY_DETACH"},
    {"CATALOG_MANAGE_METADATA": "CATALOG_ATTACH_POLICY NAMESPACE_ATTACH_POLICY TABLE_ATTACH_POLICY"},
    {"CATALOG_MANAGE_METADATA": "CATALOG_DETACH_POLICY NAMESPACE_DETACH_POLICY TABLE_DETACH_POLICY"},
    _crud("NAMESPACE", "CATALOG_MANAGE_METADATA"),
    _crud("TABLE", "CATALOG_MANAGE_METADATA"),
    _crud("VIEW", "CATALOG_MANAGE_METADATA"),
    # A commit requires privileges by its updates. Writing properties has always permitted all of them.
    {"TABLE_WRITE_PROPERTIES": " ".join(each.name for each in TABLE_UPDATES)},
    {"TABLE_FULL_METADATA": "TABLE_MANAGE_STRUCTURE"},
    {"TABLE_MANAGE_STRUCTURE": " ".join(each.name for each in _STRUCTURE)},
    {"POLICY_FULL_METADATA": "POLICY_CREATE POLICY_DROP POLICY_WRITE", "POLICY_WRITE": "POLICY_READ"},
    {"POLICY_READ": "POLICY_LIST", "POLICY_CREATE": "POLICY_LIST"},
    # Catalogs, principals and principal roles belong to the service.
    _crud("CATALOG", "SERVICE_MANAGE_ACCESS"),
    _crud("PRINCIPAL", "SERVICE_MANAGE_ACCESS"),
    _crud("PRINCIPAL_ROLE", "SERVICE_MANAGE_ACCESS"),
    {"SERVICE_MANAGE_ACCESS": "PRINCIPAL_MANAGE_GRANTS_ON_SECURABLE PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE"},
    {"SERVICE_MANAGE_ACCESS": "PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE PRINCIPAL_ROLE_MANAGE_GRANTS_FOR_GRANTEE"},
    {"SERVICE_MANAGE_ACCESS": "PRINCIPAL_RESET_CREDENTIALS"},
    {"PRINCIPAL_MANAGE_GRANTS_ON_SECURABLE": "PRINCIPAL_LIST_GRANTS"},
    {"PRINCIPAL_MANAGE_GRANTS_FOR_GRANTEE": "PRINCIPAL_LIST_GRANTS"},
    {"PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE": "PRINCIPAL_ROLE_LIST_GRANTS"},
    {"PRINCIPAL_ROLE_MANAGE_GRANTS_FOR_GRANTEE": "PRINCIPAL_ROLE_LIST_GRANTS"},
    # Access within a catalog.
    _crud("CATALOG_ROLE", "CATALOG_MANAGE_ACCESS"),
    {"CATALOG_MANAGE_ACCESS": "CATALOG_ROLE_MANAGE_GRANTS_ON_SECURABLE CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE"},
    {"CATALOG_MANAGE_ACCESS": "CATALOG_MANAGE_GRANTS_ON_SECURABLE NAMESPACE_MANAGE_GRANTS_ON_SECURABLE"},
    {"CATALOG_MANAGE_ACCESS": "TABLE_MANAGE_GRANTS_ON_SECURABLE VIEW_MANAGE_GRANTS_ON_SECURABLE"},
    {"CATALOG_MANAGE_ACCESS": "POLICY_MANAGE_GRANTS_ON_SECURABLE"},
    {"CATALOG_ROLE_MANAGE_GRANTS_ON_SECURABLE": "CATALOG_ROLE_LIST_GRANTS"},
    {"CATALOG_ROLE_MANAGE_GRANTS_FOR_GRANTEE": "CATALOG_ROLE_LIST_GRANTS"},
    {"CATALOG_MANAGE_GRANTS_ON_SECURABLE": "CATALOG_LIST_GRANTS"},
    {"NAMESPACE_MANAGE_GRANTS_ON_SECURABLE": "NAMESPACE_LIST_GRANTS"},
    {"TABLE_MANAGE_GRANTS_ON_SECURABLE": "TABLE_LIST_GRANTS"},
    {"VIEW_MANAGE_GRANTS_ON_SECURABLE": "VIEW_LIST_GRANTS"},
    # Streams. Writing does not include reading: producers need not see other producers' records.
    {"STREAM_ALL": "STREAM_READ STREAM_WRITE STREAM_CREATE STREAM_DROP STREAM_ALTER"},
    {f"STREAM_{operation}": "STREAM_DESCRIBE" for operation in ("READ", "WRITE", "CREATE", "DROP", "ALTER")},
    {"SERVICE_MANAGE_ACCESS": "STREAM_CREATE STREAM_DROP STREAM_ALTER"},
)
"""The privileges that each privilege includes directly."""


def _closure(edges: Mapping[Privilege, frozenset[Privilege]], start: Privilege) -> frozenset[Privilege]:
    reached = {start}
    pending = [start]
    while pending:
        new = edges.get(pending.pop(), frozenset()) - reached
        reached |= new
        pending.extend(new)
    return frozenset(reached)


INCLUDES: Final[Mapping[Privilege, frozenset[Privilege]]] = {
    each: _closure(DIRECTLY_INCLUDED, each) for each in Privilege
}
"""Each privilege with all that it includes, directly or indirectly."""


def mask_of(privileges: Iterable[int]) -> int:
    """The privileges as a bit mask."""
    mask = 0
    for privilege in privileges:
        mask |= 1 << privilege
    return mask


MASKS: Final[Mapping[int, int]] = {each: mask_of(INCLUDES[each]) for each in Privilege}
"""`INCLUDES` as bit masks."""


def privilege_named(name: str) -> Privilege:
    """A privilege by name. Raises InvalidInput."""
    try:
        return Privilege[name]
    except KeyError:
        raise InvalidInput(f"no such privilege: {name[:80]}", argument="privilege", value=name[:80]) from None


def check_grantable(kind: GrantKind, privilege: Privilege) -> None:
    """Raise InvalidInput unless the privilege can be granted on that kind of securable."""
    if privilege not in GRANTABLE[kind]:
        raise InvalidInput(
            f"the privilege cannot be granted on a {kind}: {privilege.name}",
            argument="privilege",
            value=privilege.name,
        )
