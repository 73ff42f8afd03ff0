"""Partition specs: their fields, field ids, and the rules for a new spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Raw

from lakebed.core.errors import InvalidInput

from .documents import DocumentElement, Int, check_unique, encode, read, read_list, rewrite, split
from .schema import UNASSIGNED, Schema
from .transforms import VOID, TransformedField, check_have_sources, check_source

__all__ = [
    "FIRST_FIELD_ID",
    "PartitionField",
    "PartitionSpec",
    "bind_spec",
    "check_spec",
    "highest_partition_id",
    "parse_spec",
    "parse_specs",
    "spec_of_fields",
]

FIRST_FIELD_ID: Final = 1000
"""The first id of partition fields, apart from the ids of columns."""


class PartitionField(TransformedField, frozen=True, kw_only=True):
    """A partition field."""

    name: str
    field_id: Int | None = None

    @property
    def derivation(self) -> tuple[tuple[int, ...], str]:
        """Its source and transform: fields with the same derivation have the same id in every spec."""
        return self.sources, self.parsed_transform.text


class PartitionSpec(DocumentElement, frozen=True):
    """A partition spec. In a table every field has its id."""

    fields: tuple[PartitionField, ...]
    spec_id: Int = UNASSIGNED

    @property
    def highest_field_id(self) -> int:
        """The highest id of its fields, or the id before the first one."""
        return max((field.field_id or 0 for field in self.fields), default=FIRST_FIELD_ID - 1)

    def is_equivalent(self, other: PartitionSpec) -> bool:
        """Whether two specs have the same derivations and names."""
        return [(*field.derivation, field.name) for field in self.fields] == [
            (*field.derivation, field.name) for field in other.fields
        ]


def parse_spec(written: Raw | bytes, where: str) -> PartitionSpec:
    """Parse a spec. Raises InvalidInput that names the field."""
    return _with_sources(read(PartitionSpec, written, where), where)


def parse_specs(written: Raw, where: str) -> dict[int, PartitionSpec]:
    """Parse a table's specs, by id. Fields without an id, as in early tables, get one by position."""
    specs: list[PartitionSpec] = []
    for index, spec in enumerate(read_list(PartitionSpec, written, where)):
        place = f"{where}[{index}]"
        if spec.spec_id < 0:
            raise InvalidInput(f"{place}.spec-id: is required and must not be negative", argument=where)
        specs.append(_with_positions(_with_sources(spec, place), place))
    check_unique("spec-id", [spec.spec_id for spec in specs], where)
    return {spec.spec_id: spec for spec in specs}


def spec_of_fields(written: Raw, where: str) -> PartitionSpec:
    """The only spec of a table of version 1 that has a list of fields instead of specs."""
    return _with_positions(parse_spec(encode({"spec-id": 0, "fields": written}), where), where)


def highest_partition_id(specs: Iterable[PartitionSpec]) -> int:
    """The highest field id in any spec."""
    return max((spec.highest_field_id for spec in specs), default=FIRST_FIELD_ID - 1)


def bind_spec(
    spec: PartitionSpec,
    schema: Schema,
    known: Mapping[int, PartitionSpec],
    *,
    last_id: int,
    format_version: int,
    removed: Iterable[int] = (),
) -> PartitionSpec:
    """A spec to add to a table: a known equivalent one, or the spec itself, checked and with ids assigned.

    A field without an id gets that of a field with the same source and transform in an earlier spec, or the next one.
    """
    for one in known.values():
        if one.is_equivalent(spec):
            return one
    check_spec(spec, schema)
    _check_new_names(spec, schema)
    numbered = _with_positions(spec, "spec") if format_version == 1 else _with_ids(spec, known, last_id)
    _check_ids(numbered, known, format_version)
    return _numbered(numbered, max([*known, *removed], default=-1) + 1)


def check_spec(spec: PartitionSpec, schema: Schema) -> None:
    """Raise InvalidInput for a spec that does not match the schema of the table."""
    for field in spec.fields:
        transform = field.parsed_transform
        if transform.family == VOID:
            continue  # its column may have been dropped
        column = check_source(transform, field.sources, schema, f"partition field {field.name}")
        if not schema.is_in_structs_only(column):
            raise InvalidInput(f"partition field {field.name} has the source {column.name}, which is in a list or map")


def _with_sources(spec: PartitionSpec, where: str) -> PartitionSpec:
    check_have_sources(spec.fields, where)
    return spec


def _check_new_names(spec: PartitionSpec, schema: Schema) -> None:
    check_unique("name", [field.name for field in spec.fields], "partition fields")
    columns = {column.name: column.id for column in schema.columns.values()}
    derivations = set()
    for field in spec.fields:
        if not field.name:
            raise InvalidInput("a partition field must have a name")
        if field.parsed_transform.family == VOID:
            continue
        if field.name in columns and field.sources != (columns[field.name],):
            raise InvalidInput(f"partition field {field.name} has the name of a column that is not its source")
        if field.derivation in derivations:
            raise InvalidInput(f"partition field {field.name} duplicates another. transform={field.transform}")
        derivations.add(field.derivation)


def _check_ids(spec: PartitionSpec, known: Mapping[int, PartitionSpec], format_version: int) -> None:
    ids = [field.field_id or 0 for field in spec.fields]
    check_unique("field-id", ids, "partition fields")
    if format_version == 1:
        # Data files of format 1 identify partition values by position only.
        if ids != list(range(FIRST_FIELD_ID, FIRST_FIELD_ID + len(ids))):
            raise InvalidInput(
                f"partition fields of a table of format version 1 must be numbered from {FIRST_FIELD_ID} without gaps,"
                f" with dropped ones as void. ids={ids}"
            )
        return
    taken: dict[int, set[object]] = {}
    for one in known.values():
        for field in one.fields:
            taken.setdefault(field.field_id or 0, set()).add(field.derivation)
    for field in spec.fields:
        others = taken.get(field.field_id or 0)
        if others is not None and field.derivation not in others and field.parsed_transform.family != VOID:
            raise InvalidInput(
                f"partition field {field.name} has the id of a field with another source or transform."
                f" field_id={field.field_id}"
            )


def _with_ids(spec: PartitionSpec, known: Mapping[int, PartitionSpec], last_id: int) -> PartitionSpec:
    older: dict[object, int] = {}
    for field in (field for one in known.values() for field in one.fields):
        # Tables that began with format 1 may have several ids for one derivation: the latest is used.
        older[field.derivation] = max(older.get(field.derivation, 0), field.field_id or 0)
    ids: list[int] = []
    next_id = max(last_id, *(field.field_id or 0 for field in spec.fields), FIRST_FIELD_ID - 1) + 1
    for field in spec.fields:
        assigned = field.field_id if field.field_id is not None else older.get(field.derivation)
        if assigned is None:
            assigned = next_id
            next_id += 1
        ids.append(assigned)
    return _with_field_ids(spec, ids)


def _with_positions(spec: PartitionSpec, where: str) -> PartitionSpec:
    given = [field.field_id for field in spec.fields]
    if None not in given:
        return spec
    if any(one is not None for one in given):
        raise InvalidInput(f"{where}: field-id must be set on all fields or on none", argument=where)
    return _with_field_ids(spec, list(range(FIRST_FIELD_ID, FIRST_FIELD_ID + len(given))))


def _with_field_ids(spec: PartitionSpec, ids: list[int]) -> PartitionSpec:
    if ids == [field.field_id for field in spec.fields]:
        return spec
    texts = read_list(_WrittenField, split(spec.written, "")["fields"], "fields")
    fields = [rewrite(field.written, {"field-id": id_}) for field, id_ in zip(texts, ids, strict=True)]
    return read(PartitionSpec, rewrite(spec.written, {"fields": fields}), "spec")


def _numbered(spec: PartitionSpec, spec_id: int) -> PartitionSpec:
    if spec.spec_id == spec_id:
        return spec
    return read(PartitionSpec, rewrite(spec.written, {"spec-id": spec_id}), "spec")


class _WrittenField(DocumentElement, frozen=True):
    """The text of a field, to be rewritten."""
