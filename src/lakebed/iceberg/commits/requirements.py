"""Requirements of a commit, checked against the current metadata.

Messages have the wording of the reference implementation ("Requirement failed: branch main has changed"): engines print
them, and their tests match them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec
from msgspec import Raw

from lakebed.core.errors import CommitConflict, InvalidInput

from ..documents import DocumentElement, Int, Long, compact, decode, read
from ..metadata.table import TableMetadata
from ..metadata.views import ViewMetadata

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUuid",
    "AssertViewUuid",
    "Requirement",
    "check_table",
    "check_view",
    "is_create",
    "parse_table_requirements",
    "parse_view_requirements",
]


class Requirement(DocumentElement, frozen=True):
    """A requirement. The field `type` selects the class."""


class AssertCreate(Requirement, frozen=True):
    """The table does not exist yet."""


class AssertTableUuid(Requirement, frozen=True):
    """The table has this UUID; another one of the same name does not match."""

    uuid: str


class AssertRefSnapshotId(Requirement, frozen=True):
    """A branch or tag refers to this snapshot; for None, it does not exist."""

    ref: str
    snapshot_id: Long | None = None


class AssertLastAssignedFieldId(Requirement, frozen=True):
    """No columns were added."""

    last_assigned_field_id: Int


class AssertCurrentSchemaId(Requirement, frozen=True):
    """The schema did not change."""

    current_schema_id: Int


class AssertLastAssignedPartitionId(Requirement, frozen=True):
    """No partition fields were added."""

    last_assigned_partition_id: Int


class AssertDefaultSpecId(Requirement, frozen=True):
    """The default partition spec did not change."""

    default_spec_id: Int


class AssertDefaultSortOrderId(Requirement, frozen=True):
    """The default sort order did not change."""

    default_sort_order_id: Int


class AssertViewUuid(Requirement, frozen=True):
    """The view has this UUID."""

    uuid: str


_OF_TABLES: Final[Mapping[str, type[Requirement]]] = {
    "assert-create": AssertCreate,
    "assert-table-uuid": AssertTableUuid,
    "assert-ref-snapshot-id": AssertRefSnapshotId,
    "assert-last-assigned-field-id": AssertLastAssignedFieldId,
    "assert-current-schema-id": AssertCurrentSchemaId,
    "assert-last-assigned-partition-id": AssertLastAssignedPartitionId,
    "assert-default-spec-id": AssertDefaultSpecId,
    "assert-default-sort-order-id": AssertDefaultSortOrderId,
}
_OF_VIEWS: Final[Mapping[str, type[Requirement]]] = {"assert-view-uuid": AssertViewUuid}
_NAMES: Final = {kind: name for name, kind in {**_OF_TABLES, **_OF_VIEWS}.items()}


class _RequirementHead(msgspec.Struct, frozen=True):
    type: str


def parse_table_requirements(written: bytes | Raw) -> tuple[Requirement, ...]:
    """Parse the requirements of a table commit, a JSON list. Raises InvalidInput that names index and field."""
    return tuple(_parse(written, _OF_TABLES, "table"))


def parse_view_requirements(written: bytes | Raw) -> tuple[Requirement, ...]:
    """Parse the requirements of a view commit, a JSON list. Raises InvalidInput that names index and field."""
    return tuple(_parse(written, _OF_VIEWS, "view"))


def is_create(requirements: Sequence[Requirement]) -> bool:
    """Whether a commit creates its table. Raises InvalidInput if it has further requirements."""
    creates = [isinstance(requirement, AssertCreate) for requirement in requirements]
    if any(creates) and not all(creates):
        raise InvalidInput("assert-create must be the only requirement: a new table has nothing else to assume")
    return any(creates)


def check_table(requirements: Iterable[Requirement], base: TableMetadata | None) -> None:
    """Raise CommitConflict for the first requirement that does not hold; `base` is None if the table does not exist."""
    for requirement in requirements:
        if isinstance(requirement, AssertCreate):
            if base is not None:
                _fail(requirement, "table already exists", None, base.uuid)
        elif base is None:
            _fail(requirement, "table does not exist", None, None)
        else:
            _check(requirement, base)


def check_view(requirements: Iterable[Requirement], base: ViewMetadata) -> None:
    """Raise CommitConflict for the first requirement that does not hold."""
    for requirement in requirements:
        if not isinstance(requirement, AssertViewUuid):
            raise InvalidInput(f"not a requirement of views. type={_NAMES[type(requirement)]}")
        _check_uuid(requirement, "view UUID", requirement.uuid, base.uuid)


def _check(requirement: Requirement, base: TableMetadata) -> None:
    match requirement:
        case AssertTableUuid():
            _check_uuid(requirement, "UUID", requirement.uuid, base.uuid)
        case AssertRefSnapshotId():
            _check_reference(requirement, base)
        case AssertLastAssignedFieldId():
            _check_id(requirement, "last assigned field id", requirement.last_assigned_field_id, base.last_column_id)
        case AssertCurrentSchemaId():
            _check_id(requirement, "current schema", requirement.current_schema_id, base.current_schema_id)
        case AssertLastAssignedPartitionId():
            _check_id(
                requirement,
                "last assigned partition id",
                requirement.last_assigned_partition_id,
                base.last_partition_id,
            )
        case AssertDefaultSpecId():
            _check_id(requirement, "default partition spec", requirement.default_spec_id, base.default_spec_id)
        case AssertDefaultSortOrderId():
            _check_id(requirement, "default sort order", requirement.default_sort_order_id, base.default_sort_order_id)
        case _:
            raise InvalidInput(f"not a requirement of tables. type={_NAMES[type(requirement)]}")


def _check_reference(requirement: AssertRefSnapshotId, base: TableMetadata) -> None:
    reference = base.refs.get(requirement.ref)
    expected = requirement.snapshot_id
    if reference is None:
        if expected is not None:
            _fail(requirement, f"branch or tag {requirement.ref} is missing, expected {expected}", expected, None)
        return
    found = reference.snapshot_id
    named = f"{reference.type} {requirement.ref}"
    if expected is None:
        _fail(requirement, f"{named} was created concurrently", None, found)
    if expected != found:
        _fail(requirement, f"{named} has changed: expected id {expected} != {found}", expected, found)


def _check_uuid(requirement: Requirement, what: str, expected: str, found: str | None) -> None:
    if found is None or expected.lower() != found.lower():
        _fail(requirement, f"{what} does not match: expected {expected} != {found}", expected, found)


def _check_id(requirement: Requirement, what: str, expected: int, found: int) -> None:
    if expected != found:
        _fail(requirement, f"{what} changed: expected id {expected} != {found}", expected, found)


def _fail(requirement: Requirement, reason: str, expected: object, found: object) -> NoReturn:
    raise CommitConflict(
        f"Requirement failed: {reason}", condition=_NAMES[type(requirement)], expected=expected, found=found
    )


def _parse(written: bytes | Raw, kinds: Mapping[str, type[Requirement]], of: str) -> Iterable[Requirement]:
    for index, text in enumerate(decode(list[Raw], compact(written, "requirements"), "requirements")):
        where = f"requirements[{index}]"
        name = decode(_RequirementHead, text, where).type
        kind = kinds.get(name)
        if kind is None:
            raise InvalidInput(f"{where}: unknown {of} requirement. type={name}", argument="type", value=name)
        yield read(kind, text, where)
