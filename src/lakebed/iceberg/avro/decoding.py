"""Compiles a writer's schema to decoders that read the projected fields and skip the rest.

A decoder takes a block's bytes and a start position, and returns the value and its end position. The size of a
collection is checked before it is read: at most as many items as bytes are left, and at most the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from lakebed.core.errors import InvalidInput, TooLarge

from .binary import read_boolean, read_bytes, read_count, read_double, read_float, read_long, read_string
from .limits import ReadLimits
from .schema import AvroField, AvroType
from .skipping import Skipper, make_skipper

__all__ = [
    "Decoder",
    "DecoderFactory",
    "ProjectedField",
    "make_bounds",
    "make_counts",
    "make_record",
    "make_scalar",
    "make_tuple",
    "make_value",
]

Decoder: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Values have any type; the definition of the projected field determines it."""
DecoderFactory: TypeAlias = Callable[[AvroType, ReadLimits], Decoder]
"""Creates the decoder of a type that is not a union with null. Raises InvalidInput for an unexpected type."""


class ProjectedField(NamedTuple):
    """A field to read."""

    field_id: int
    make: DecoderFactory
    names: tuple[str, ...] = ()
    """Another name of the field, used by writers that omit field ids."""
    is_required: bool = False


def make_record(
    avro: AvroType, slots: Sequence[str], wanted: Mapping[str, ProjectedField], limits: ReadLimits
) -> Decoder:
    """Decode records to lists with one value per slot: None where the field is not projected, or not in the file."""
    if avro.kind != "record":
        raise InvalidInput(f"avro field has an unexpected type. expected=record type={avro.kind}")
    chosen = _choose(avro.fields, wanted)
    for name, want in wanted.items():
        if want.is_required and name not in chosen.values():
            raise InvalidInput(f"avro record lacks a field. field={name} field-id={want.field_id}")
    numbers = {name: number for number, name in enumerate(slots)}
    steps: list[tuple[int, Decoder | None, Skipper | None]] = []
    for number, field in enumerate(avro.fields):
        if number in chosen:
            name = chosen[number]
            steps.append((numbers[name], _field_decoder(field, name, wanted[name], limits), None))
        else:
            steps.append((-1, None, make_skipper(field.type)))
    blank: list[Any] = [None] * len(slots)

    def decode(data: bytes, at: int) -> tuple[list[Any], int]:
        values = blank.copy()
        for slot, read, skip in steps:
            if read is not None:
                values[slot], at = read(data, at)
            elif skip is not None:
                at = skip(data, at)
        return values, at

    return decode


def _choose(fields: Sequence[AvroField], wanted: Mapping[str, ProjectedField]) -> dict[int, str]:
    """Match fields with projected fields: by id if the writer set ids, by name otherwise."""
    by_id = {want.field_id: name for name, want in wanted.items()}
    by_name = {alias: name for name, want in wanted.items() for alias in (name, *want.names)}
    has_ids = any(field.field_id is not None for field in fields)
    chosen: dict[int, str] = {}
    taken: set[str] = set()
    for number, field in enumerate(fields):
        name = by_name.get(field.name) if not has_ids else None if field.field_id is None else by_id.get(field.field_id)
        if name is not None and name not in taken:
            chosen[number] = name
            taken.add(name)
    return chosen


def _field_decoder(field: AvroField, name: str, want: ProjectedField, limits: ReadLimits) -> Decoder:
    required = field.type.required
    if required is None:
        raise InvalidInput(f"avro field is a union of several types. field={name}")
    try:
        decode = want.make(required, limits)
    except InvalidInput as unfit:
        raise type(unfit)(f"{unfit} field={name}") from unfit
    return _not_null(field.type, decode, name) if want.is_required else _nullable(field.type, decode)


def _not_null(avro: AvroType, decode: Decoder, name: str) -> Decoder:
    if avro.kind != "union":
        return decode
    decode_nullable = _nullable(avro, decode)

    def decode_not_null(data: bytes, at: int) -> tuple[Any, int]:
        value, at = decode_nullable(data, at)
        if value is None:
            raise InvalidInput(f"avro field is null. field={name}")
        return value, at

    return decode_not_null


def _nullable(avro: AvroType, decode: Decoder) -> Decoder:
    if avro.kind != "union":
        return decode
    # The branch is a zig-zag encoded index. There are at most two branches, or `required` would be None.
    branches = {number << 1: branch.kind == "null" for number, branch in enumerate(avro.inner)}

    def decode_nullable(data: bytes, at: int) -> tuple[Any, int]:
        is_null = branches.get(data[at])
        if is_null is None:
            raise InvalidInput("avro union has no such branch")
        return (None, at + 1) if is_null else decode(data, at + 1)

    return decode_nullable


def make_scalar(*kinds: str) -> DecoderFactory:
    """Decode single values of the given Avro kinds."""

    def make(avro: AvroType, limits: ReadLimits) -> Decoder:
        if avro.kind not in kinds:
            raise InvalidInput(f"avro field has an unexpected type. expected={'|'.join(kinds)} type={avro.kind}")
        if avro.kind == "fixed":
            return _fixed(avro.size)
        return _SCALARS[avro.kind]

    return make


def make_value(avro: AvroType, limits: ReadLimits) -> Decoder:
    """Decode a partition value of any type."""
    if avro.kind == "null":
        return lambda data, at: (None, at)
    if avro.kind not in _SCALARS and avro.kind != "fixed":
        raise InvalidInput(f"avro type is not supported for partition values. type={avro.kind}")
    decode = _fixed(avro.size) if avro.kind == "fixed" else _SCALARS[avro.kind]
    if avro.logical == "decimal" and avro.kind in ("fixed", "bytes"):
        return _converted(decode, _to_decimal(avro.scale))
    if avro.logical == "uuid" and avro.kind in ("fixed", "string"):
        return _converted(decode, _to_uuid)
    return decode


def make_tuple(of: DecoderFactory) -> DecoderFactory:
    """Decode arrays to tuples."""

    def make(avro: AvroType, limits: ReadLimits) -> Decoder:
        if avro.kind != "array":
            raise InvalidInput(f"avro field has an unexpected type. expected=array type={avro.kind}")
        item = avro.inner[0].required
        if item is None:
            raise InvalidInput("avro array has items of several types.")
        decode_item = _nullable(avro.inner[0], of(item, limits))

        def decode(data: bytes, at: int) -> tuple[Any, int]:
            items: list[Any] = []
            while True:
                count, at = read_count(data, at)
                if not count:
                    return tuple(items), at
                _check_items(len(items) + count, limits)
                for _ in range(count):
                    item, at = decode_item(data, at)
                    items.append(item)

        return decode

    return make


def make_counts(columns: frozenset[int] | None) -> DecoderFactory:
    """Decode maps from column to number, which Iceberg writes as arrays of pairs; all columns, or `columns`."""

    def make(avro: AvroType, limits: ReadLimits) -> Decoder:
        _check_pairs(avro, ("int", "long"))

        # Most of a manifest: the usual one-byte numbers are read in place.
        def decode(data: bytes, at: int) -> tuple[dict[int, int], int]:
            counts: dict[int, int] = {}
            while True:
                count, at = read_count(data, at)
                if not count:
                    return counts, at
                _check_items(len(counts) + count, limits)
                for _ in range(count):
                    byte = data[at]
                    if byte < 0x80:
                        key, at = (byte >> 1) ^ -(byte & 1), at + 1
                    else:
                        key, at = read_long(data, at)
                    byte = data[at]
                    if byte < 0x80:
                        value, at = (byte >> 1) ^ -(byte & 1), at + 1
                    else:
                        value, at = read_long(data, at)
                    if columns is None or key in columns:
                        counts[key] = value

        return decode

    return make


def make_bounds(columns: frozenset[int] | None) -> DecoderFactory:
    """Decode maps from column to bytes, as `make_counts` does for numbers."""

    def make(avro: AvroType, limits: ReadLimits) -> Decoder:
        _check_pairs(avro, ("bytes",))

        def decode(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
            bounds: dict[int, bytes] = {}
            while True:
                count, at = read_count(data, at)
                if not count:
                    return bounds, at
                _check_items(len(bounds) + count, limits)
                for _ in range(count):
                    byte = data[at]
                    if byte < 0x80:
                        key, at = (byte >> 1) ^ -(byte & 1), at + 1
                    else:
                        key, at = read_long(data, at)
                    length, at = read_long(data, at)
                    if length < 0:
                        raise InvalidInput(f"avro value has a negative length. length={length}")
                    end = at + length  # A position past the block's end fails at the next read.
                    if columns is None or key in columns:
                        bounds[key] = data[at:end]
                    at = end

        return decode

    return make


def _check_pairs(avro: AvroType, values: tuple[str, ...]) -> None:
    pair = avro.inner[0] if avro.kind == "array" else None
    if (
        pair is None
        or pair.kind != "record"
        or len(pair.fields) != 2
        or pair.fields[0].type.kind not in ("int", "long")
        or pair.fields[1].type.kind not in values
    ):
        raise InvalidInput(f"avro field has an unexpected type. expected=map of int to {values[-1]}")


def _check_items(count: int, limits: ReadLimits) -> None:
    if count > limits.items:
        raise TooLarge(f"avro collection has too many items. maximum={limits.items}")


def _fixed(size: int) -> Decoder:
    def decode(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return decode


def _converted(decode: Decoder, convert: Callable[[Any], Any]) -> Decoder:
    def decode_converted(data: bytes, at: int) -> tuple[Any, int]:
        value, at = decode(data, at)
        return convert(value), at

    return decode_converted


def _to_decimal(scale: int) -> Callable[[bytes], Decimal]:
    # Through text: arithmetic would round to the precision of the context.
    return lambda unscaled: Decimal(f"{int.from_bytes(unscaled, 'big', signed=True)}E-{scale}")


def _to_uuid(value: bytes | str) -> UUID:
    try:
        return UUID(bytes=value) if isinstance(value, bytes) else UUID(value)
    except ValueError:
        raise InvalidInput("avro value is not a uuid") from None


_SCALARS: Final[dict[str, Decoder]] = {
    "boolean": read_boolean,
    "int": read_long,
    "long": read_long,
    "float": read_float,
    "double": read_double,
    "bytes": read_bytes,
    "string": read_string,
}
