"""Hypothesis strategies for schemas, specs and orders."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from .samples import Json, column, list_of, map_of, partition, schema, sort, struct

PRIMITIVES = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string"]
PRIMITIVES += ["uuid", "binary", "fixed[4]", "decimal(9, 2)"]

TRANSFORMS = {
    "int": ["identity", "bucket[4]", "truncate[10]"],
    "long": ["identity", "bucket[4]", "truncate[10]"],
    "date": ["identity", "year", "month", "day", "bucket[4]"],
    "timestamp": ["identity", "year", "month", "day", "hour"],
    "timestamptz": ["identity", "day", "hour", "bucket[8]"],
    "string": ["identity", "bucket[4]", "truncate[3]"],
    "uuid": ["identity", "bucket[16]"],
}


@st.composite
def schemas(draw: st.DrawFn) -> Json:
    """A schema with nested types and unordered ids."""
    numbers = draw(st.permutations(range(200)))
    fresh = count()

    def next_id() -> int:
        return numbers[next(fresh)]

    def kind(depth: int) -> object:
        choice = draw(st.integers(0, 9)) if depth else 0
        if choice == 7:
            return struct(*fields(depth - 1))
        if choice == 8:
            return list_of(next_id(), kind(depth - 1), required=draw(st.booleans()))
        if choice == 9:
            return map_of(next_id(), kind(0), next_id(), kind(depth - 1), required=draw(st.booleans()))
        return draw(st.sampled_from(PRIMITIVES))

    def fields(depth: int) -> list[Json]:
        names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True))
        return [column(next_id(), name, kind(depth), required=draw(st.booleans())) for name in names]

    return schema(*fields(2), schema_id=0)


def sources(document: Json) -> dict[int, str]:
    """Top-level columns that support partitioning or sorting."""
    return {field["id"]: field["type"] for field in document["fields"] if str(field["type"]) in TRANSFORMS}


@st.composite
def partition_fields(draw: st.DrawFn, document: Json, first_id: int | None = None) -> list[Json]:
    """Fields of a spec for a schema; numbered from an id, if given."""
    usable = sources(document)
    if not usable:
        return []
    chosen = draw(st.lists(st.sampled_from(sorted(usable)), unique=True, max_size=3))
    fields = [partition(id_, draw(st.sampled_from(TRANSFORMS[usable[id_]])), f"p{id_}") for id_ in chosen]
    if first_id is None:
        return fields
    return [{**field, "field-id": first_id + index} for index, field in enumerate(fields)]


@st.composite
def sort_fields(draw: st.DrawFn, document: Json) -> list[Json]:
    """Fields of an order for a schema."""
    usable = sources(document)
    if not usable:
        return []
    chosen = draw(st.lists(st.sampled_from(sorted(usable)), unique=True, max_size=3))
    return [
        sort(
            id_,
            draw(st.sampled_from(TRANSFORMS[usable[id_]])),
            draw(st.sampled_from(["asc", "desc"])),
            draw(st.sampled_from(["nulls-first", "nulls-last"])),
        )
        for id_ in chosen
    ]
