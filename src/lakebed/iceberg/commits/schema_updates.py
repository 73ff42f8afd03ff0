"""Updates of schemas, partition specs and sort orders.

An added part that equals an existing one reuses its id. Others get the id after the highest; ids in the request are
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.core.errors import InvalidInput

from ..partitioning import bind_spec, parse_spec
from ..schema import check_format, parse_schema, reuse_or_number
from ..sorting import bind_order, parse_order
from .draft import TableDraft
from .updates import (
    LAST_ADDED,
    AddSchema,
    AddSortOrder,
    AddSpec,
    RemoveSchemas,
    RemoveSpecs,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)

__all__ = [
    "add_schema",
    "add_sort_order",
    "add_spec",
    "chosen_id",
    "remove_schemas",
    "remove_specs",
    "set_current_schema",
    "set_default_sort_order",
    "set_default_spec",
]


def add_schema(draft: TableDraft, update: AddSchema) -> None:
    """Add a schema, unless an equivalent one exists."""
    schema = parse_schema(update.schema, "add-schema: schema")
    check_format(schema, draft.format_version)
    schema = reuse_or_number(schema, draft.schemas, draft.removed_schema_ids)
    draft.schemas[schema.id] = schema
    draft.last_column_id = max(draft.last_column_id, schema.highest_field_id)
    draft.added_schema_id = schema.id


def set_current_schema(draft: TableDraft, update: SetCurrentSchema) -> None:
    """Make a schema current. Specs and orders refer to columns by id, and stay unchanged."""
    draft.current_schema_id = chosen_id("schema", update.schema_id, draft.added_schema_id, draft.schemas)


def remove_schemas(draft: TableDraft, update: RemoveSchemas) -> None:
    """Remove schemas, except the current one."""
    if draft.current_schema_id in update.schema_ids:
        raise InvalidInput(f"the current schema cannot be removed. schema={draft.current_schema_id}")
    for schema_id in update.schema_ids:
        if draft.schemas.pop(schema_id, None) is not None:
            draft.removed_schema_ids.add(schema_id)


def add_spec(draft: TableDraft, update: AddSpec) -> None:
    """Add a partition spec for the current schema, unless an equivalent one exists."""
    spec = bind_spec(
        parse_spec(update.spec, "add-spec: spec"),
        draft.current_schema(),
        draft.specs,
        last_id=draft.last_partition_id,
        format_version=draft.format_version,
        removed=draft.removed_spec_ids,
    )
    draft.specs[spec.spec_id] = spec
    draft.last_partition_id = max(draft.last_partition_id, spec.highest_field_id)
    draft.added_spec_id = spec.spec_id


def set_default_spec(draft: TableDraft, update: SetDefaultSpec) -> None:
    """Make a partition spec the default."""
    draft.default_spec_id = chosen_id("partition spec", update.spec_id, draft.added_spec_id, draft.specs)


def remove_specs(draft: TableDraft, update: RemoveSpecs) -> None:
    """Remove partition specs, except the default."""
    if draft.default_spec_id in update.spec_ids:
        raise InvalidInput(f"the default partition spec cannot be removed. spec={draft.default_spec_id}")
    for spec_id in update.spec_ids:
        if draft.specs.pop(spec_id, None) is not None:
            draft.removed_spec_ids.add(spec_id)


def add_sort_order(draft: TableDraft, update: AddSortOrder) -> None:
    """Add a sort order for the current schema, unless an equivalent one exists."""
    order = parse_order(update.sort_order, "add-sort-order: sort-order")
    order = bind_order(order, draft.current_schema(), draft.sort_orders)
    draft.sort_orders[order.order_id] = order
    draft.added_order_id = order.order_id


def set_default_sort_order(draft: TableDraft, update: SetDefaultSortOrder) -> None:
    """Make a sort order the default."""
    draft.default_sort_order_id = chosen_id("sort order", update.sort_order_id, draft.added_order_id, draft.sort_orders)


def chosen_id(what: str, given: int, last_added: int | None, among: Mapping[int, object]) -> int:
    """The id that an update refers to. Raises InvalidInput for an unknown id, and for `-1` without an addition."""
    if given == LAST_ADDED:
        if last_added is None:
            raise InvalidInput(f"the last added {what} cannot be set: this commit adds none")
        given = last_added
    if given not in among:
        raise InvalidInput(f"there is no {what} of that id. id={given}")
    return given
