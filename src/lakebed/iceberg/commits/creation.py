"""Creates the metadata of new tables and views from requests.

Ids in a request are the client's, often counted from zero. A new table gets fresh ids, in the order of the reference
implementation: all fields of a struct before their nested fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput

from ..documents import compact, decode, encode, split
from ..metadata.table import DEFAULT_FORMAT_VERSION, TableMetadata
from ..metadata.views import ViewMetadata
from ..schema import Schema, parse_schema
from .builder import build_table, check_format_version
from .properties import FORMAT_VERSION, RESERVED
from .updates import LAST_ADDED, parse_table_updates, parse_view_updates
from .view_builder import build_view

__all__ = ["CreateTable", "CreateView", "new_table", "new_view", "parse_create_table", "parse_create_view"]

_FOR_NEW_TABLES: Final = {"write.parquet.compression-codec": "zstd"}
"""Explicit, because writers use another default for tables without the property, for compatibility."""

_NULL: Final = Raw(b"null")
_NO_FIELDS: Final = Raw(b'{"fields":[]}')
_Name = Annotated[str, Meta(min_length=1)]


class CreateTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A request to create a table."""

    name: _Name
    schema: Raw
    location: _Name | None = None
    partition_spec: Raw = _NO_FIELDS
    write_order: Raw = _NO_FIELDS
    stage_create: bool = False
    properties: dict[str, str] | None = None


class CreateView(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A request to create a view."""

    name: _Name
    schema: Raw
    view_version: Raw
    location: _Name | None = None
    properties: dict[str, str] | None = None


def parse_create_table(document: bytes | Raw) -> CreateTable:
    """Parse a request. Raises InvalidInput that names the field."""
    return decode(CreateTable, _without_nulls(document), "")


def parse_create_view(document: bytes | Raw) -> CreateView:
    """Parse a request. Raises InvalidInput that names the field."""
    return decode(CreateView, _without_nulls(document), "")


def new_table(request: CreateTable, *, location: str, uuid: str, now_ms: int) -> TableMetadata:
    """The metadata of a new table, without snapshots. Raises InvalidInput."""
    schema = parse_schema(request.schema, "schema")
    fresh_schema, fresh_ids = _renumbered(schema)
    properties = request.properties or {}
    updates: list[dict[str, object]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": _version(properties)},
        {"action": "add-schema", "schema": fresh_schema},
        {"action": "set-current-schema", "schema-id": LAST_ADDED},
        {"action": "add-spec", "spec": _rebound(request.partition_spec, fresh_ids, "partition-spec")},
        {"action": "set-default-spec", "spec-id": LAST_ADDED},
        {"action": "add-sort-order", "sort-order": _rebound(request.write_order, fresh_ids, "write-order")},
        {"action": "set-default-sort-order", "sort-order-id": LAST_ADDED},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": _FOR_NEW_TABLES | _stored(properties)},
    ]
    return build_table(None, parse_table_updates(encode(updates)), now_ms=now_ms, new_uuid=uuid)


def new_view(request: CreateView, *, location: str, uuid: str, now_ms: int) -> ViewMetadata:
    """The metadata of a new view. Raises InvalidInput."""
    version = {**split(request.view_version, "view-version"), "schema-id": LAST_ADDED}
    updates: list[dict[str, object]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "add-schema", "schema": request.schema},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": _stored(request.properties or {})},
    ]
    return build_view(None, parse_view_updates(encode(updates)), now_ms=now_ms, new_uuid=uuid)


def _without_nulls(document: bytes | Raw) -> Raw:
    # Some clients send null for omitted fields.
    fields = split(compact(document, "request"), "request")
    return encode({name: text for name, text in fields.items() if text != _NULL})


def _stored(properties: Mapping[str, str]) -> dict[str, str]:
    # Engines list metadata fields among a table's properties, and clients send such lists with the request.
    return {name: value for name, value in properties.items() if name not in RESERVED}


def _version(properties: Mapping[str, str]) -> int:
    text = properties.get(FORMAT_VERSION)
    if text is None:
        return DEFAULT_FORMAT_VERSION
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(
            f"property must be a number. property={FORMAT_VERSION} value={text}", argument=FORMAT_VERSION
        )
    check_format_version(int(text))
    return int(text)


def _renumbered(schema: Schema) -> tuple[Raw, dict[int, int]]:
    """The schema with fresh ids, and the fresh ids by original id."""
    document = decode(dict[str, object], schema.written, "schema")
    document["schema-id"] = 0
    ids: dict[int, int] = {}
    numbers = count(1)

    def renumber(holder: dict[str, object], name: str) -> None:
        old = holder[name]
        assert isinstance(old, int)  # noqa: S101  # the schema was parsed: its ids are numbers
        holder[name] = ids[old] = next(numbers)

    _renumber_struct(document, renumber)
    identifiers = document.get("identifier-field-ids")
    if isinstance(identifiers, list):
        document["identifier-field-ids"] = [ids[one] for one in identifiers]
    return encode(document), ids


def _renumber_struct(struct: dict[str, object], renumber: Callable[[dict[str, object], str], None]) -> None:
    fields = struct["fields"]
    assert isinstance(fields, list)  # noqa: S101  # so is its form
    for field in fields:
        renumber(field, "id")
    for field in fields:
        _renumber_type(field["type"], renumber)


def _renumber_type(kind: object, renumber: Callable[[dict[str, object], str], None]) -> None:
    if not isinstance(kind, dict):
        return
    if kind["type"] == "struct":
        _renumber_struct(kind, renumber)
    elif kind["type"] == "list":
        renumber(kind, "element-id")
        _renumber_type(kind["element"], renumber)
    else:
        renumber(kind, "key-id")
        renumber(kind, "value-id")
        _renumber_type(kind["key"], renumber)
        _renumber_type(kind["value"], renumber)


def _rebound(written: Raw, ids: Mapping[int, int], where: str) -> Raw:
    """A spec or order of the request with fresh source ids, and without ids of partition fields."""
    document = decode(dict[str, object], written, where)
    fields = decode(list[dict[str, object]], encode(document.get("fields", [])), f"{where}.fields")
    for index, field in enumerate(fields):
        field.pop("field-id", None)
        place = f"{where}.fields[{index}]"
        if "source-id" in field:
            field["source-id"] = _fresh(field["source-id"], ids, place)
        if isinstance(several := field.get("source-ids"), list):
            field["source-ids"] = [_fresh(one, ids, place) for one in several]
    return encode({**document, "fields": fields})


def _fresh(old: object, ids: Mapping[int, int], where: str) -> int:
    new = ids.get(old) if isinstance(old, int) else None
    if new is None:
        raise InvalidInput(f"{where}.source-id: the schema has no such column. id={old}", argument=where)
    return new
