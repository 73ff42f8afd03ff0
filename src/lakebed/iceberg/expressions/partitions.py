"""Partition specs bound to a schema: the source, transform and type of each partition field."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakebed.iceberg.manifests import PartitionValue
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.partitioning import PartitionField, PartitionSpec
from lakebed.iceberg.schema import Schema
from lakebed.iceberg.transforms import VOID, Transform
from lakebed.iceberg.types import PrimitiveType, parse_primitive

from ..transform_functions import TIME_UNITS, TransformFunction, function_of, result_type
from ..values import Value, canonical, is_nan
from .bound import BoundTerm

__all__ = ["BoundPartitionField", "BoundSpec", "PartitionValues", "bind_specs", "partition_key"]

PartitionValues = tuple[Value | None, ...]
"""The values of a partition, in the order of its spec, in the form of `values`."""

_NAN_KEY: Final = b"NaN"


@dataclass(frozen=True, slots=True)
class BoundPartitionField:
    """One partition field."""

    term: BoundTerm
    """The partition field as a term of predicates."""
    source_id: int | None
    """The source column; None if there are several."""
    transform: Transform
    function: TransformFunction | None
    """None if values cannot be compared: an unknown transform, or a column of unknown type."""
    is_exact: bool = True
    """Whether all writers agree on its values; they do not for time units before 1970."""


@dataclass(frozen=True)
class BoundSpec:
    """The partition fields of one spec."""

    spec_id: int
    fields: tuple[BoundPartitionField, ...]

    @cached_property
    def is_partitioned(self) -> bool:
        """Whether it has fields other than `void`."""
        return any(field.transform.family != VOID for field in self.fields)

    @cached_property
    def field_ids(self) -> tuple[int, ...]:
        """The partition field ids, in order."""
        return tuple(field.term.id for field in self.fields)

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """The position of each field in a partition, by id."""
        return {field.term.id: position for position, field in enumerate(self.fields)}

    def partition(self, stored: Sequence[PartitionValue]) -> PartitionValues:
        """A partition of a manifest, in the form of `values`."""
        return tuple(canonical(field.term.kind, value) for field, value in zip(self.fields, stored, strict=True))


def bind_specs(table: TableMetadata, schema: Schema) -> dict[int, BoundSpec]:
    """The layouts of all specs of a table, by spec id, for a scan with one of its schemas.

    A spec may outlive its source columns: types are looked up in the scan's schema first, then in all others, newest
    first.
    """
    newest_first = [table.schemas[schema_id] for schema_id in sorted(table.schemas, reverse=True)]
    schemas = (schema, table.schema, *newest_first)
    return {spec.spec_id: _bind_spec(spec, schemas) for spec in table.specs.values()}


def partition_key(partition: PartitionValues) -> tuple[object, ...]:
    """A key by which partitions are equal: floating-point values by their bits, NaN equal to itself."""
    return tuple(_float_key(value) if isinstance(value, float) else value for value in partition)


def _float_key(value: float) -> bytes:
    return _NAN_KEY if is_nan(value) else struct.pack("<d", value)


def _bind_spec(spec: PartitionSpec, schemas: Iterable[Schema]) -> BoundSpec:
    return BoundSpec(spec.spec_id, tuple(_bind_field(field, schemas) for field in spec.fields))


def _bind_field(field: PartitionField, schemas: Iterable[Schema]) -> BoundPartitionField:
    transform = field.parsed_transform
    source_id = field.sources[0] if len(field.sources) == 1 else None
    source = _primitive(source_id, schemas)
    kind = None if source is None or transform.family is None else result_type(transform, source)
    term = BoundTerm(field.field_id or 0, field.name, kind, nullable=True)
    function = None if source is None else function_of(transform, source)
    counts_days = source is not None and source.name == "date" and transform.family == "day"
    return BoundPartitionField(term, source_id, transform, function, counts_days or transform.family not in TIME_UNITS)


def _primitive(source_id: int | None, schemas: Iterable[Schema]) -> PrimitiveType | None:
    if source_id is None:
        return None
    for schema in schemas:
        column = schema.columns.get(source_id)
        if column is not None and isinstance(column.type, str):
            return parse_primitive(column.type)
    return None
