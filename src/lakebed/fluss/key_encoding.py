"""Key encodings: Fluss's compacted form, and the forms of Iceberg and Paimon.

A lake has rules of its own for which bucket a row is in, and writers hash the key for that: where a table has a lake,
its keys have the form of that lake. Not where the bucket is by fewer columns than the key has: then the bytes of these
must begin the key, which only the compacted form sees to. Tables of the first version of keys knew no such exception.

Of Iceberg a key is one column: whole numbers and times (in microseconds) of 64 bits, little-endian; text and bytes as
they are; a decimal as all that is there, big-endian. Of Paimon it is a `BinaryRow`: a byte for the kind of change, bits
for nulls up to the next word, a word for each column, and behind these what does not fit a word.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from lakebed.fluss.rows.fields import (
    NOT_A_VALUE,
    RowFormat,
    corrupt,
    decode_field,
    decode_unscaled,
    encode_field,
    field_end,
)
from lakebed.fluss.rows.nested import INLINE_MAX, aligned, element_reader, encode_element

from .errors import ErrorCode, FlussError
from .types import DataType, TypeRoot

__all__ = ["KeyEncoding", "check_key_types", "choose_encoding", "decode_key", "encode_key"]

_WORD_BYTES: Final = 8
_INLINE: Final = frozenset({TypeRoot.STRING, TypeRoot.CHAR, TypeRoot.BYTES, TypeRoot.BINARY})
_TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_ICEBERG_NUMBERS: Final = {
    TypeRoot.INT: struct.Struct("<q"),
    TypeRoot.DATE: struct.Struct("<q"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.TIME: struct.Struct("<q"),
    TypeRoot.TIMESTAMP: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_OF_ICEBERG: Final = _ICEBERG_NUMBERS.keys() | _INLINE | {TypeRoot.DECIMAL}


class KeyEncoding(StrEnum):
    """What keys are written as, by the names of the lakes that have a form of their own."""

    COMPACTED = ""
    ICEBERG = "iceberg"
    PAIMON = "paimon"


def choose_encoding(lake: str, version: int, key: Sequence[str], bucket_key: Sequence[str]) -> KeyEncoding:
    """The form of keys of a table with such a lake, and of this version of keys.

    `key` are the columns that are in a key: those of the primary key that its partitions are not by.
    """
    if lake not in (KeyEncoding.ICEBERG, KeyEncoding.PAIMON):
        return KeyEncoding.COMPACTED  # Hudi has a form for buckets, and for buckets alone
    if lake == KeyEncoding.ICEBERG and len(key) != 1:
        return KeyEncoding.COMPACTED  # of several columns Iceberg has none, so the bucket is by one of them
    return KeyEncoding(lake) if version == 1 or tuple(bucket_key) == tuple(key) else KeyEncoding.COMPACTED


def check_key_types(form: KeyEncoding, types: Sequence[DataType]) -> None:
    """Raise INVALID_TABLE unless there are keys of such columns in this form."""
    if form is KeyEncoding.ICEBERG and (len(types) != 1 or types[0].root not in _OF_ICEBERG):
        raise FlussError(
            ErrorCode.INVALID_TABLE,
            "a bucket key that goes to Iceberg is one column, and of no BOOLEAN, TINYINT, SMALLINT or TIMESTAMP_LTZ. "
            f"types={', '.join(map(str, types))}",
        )


def encode_key(form: KeyEncoding, types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The key of columns that `check_key_types` lets pass, and that have no null."""
    match form:
        case KeyEncoding.ICEBERG:
            ((type_, value),) = zip(types, values, strict=True)
            return _encode_iceberg(type_, value)
        case KeyEncoding.PAIMON:
            return _encode_paimon(types, values)
        case _:
            fields = zip(types, values, strict=True)
            return b"".join(encode_field(RowFormat.COMPACTED, type_, value) for type_, value in fields)


def decode_key(form: KeyEncoding, types: Sequence[DataType], key: bytes) -> list[Any]:
    """The values of its columns; raises CORRUPT_RECORD for what is no such key."""
    try:
        match form:
            case KeyEncoding.ICEBERG:
                return [_decode_iceberg(types, key)]
            case KeyEncoding.PAIMON:
                return _decode_paimon(types, key)
            case _:
                return _decode_compacted(types, key)
    except NOT_A_VALUE as error:
        raise corrupt(f"key is none of its table. length={len(key)}") from error


def _decode_compacted(types: Sequence[DataType], key: bytes) -> list[Any]:
    values = []
    position = 0
    for type_ in types:
        end = field_end(type_, key, position)
        if end > len(key):
            raise corrupt(f"key is too short. type={type_} length={len(key)}")
        values.append(decode_field(RowFormat.COMPACTED, type_, key[position:end]))
        position = end
    _check_end(key, position)
    return values


def _decode_iceberg(types: Sequence[DataType], key: bytes) -> Any:
    (type_,) = types
    root = type_.root
    if root in _ICEBERG_NUMBERS:
        (number,) = _ICEBERG_NUMBERS[root].unpack(key)
        if root in (TypeRoot.INT, TypeRoot.DATE):
            return struct.unpack("<i", struct.pack("<i", number))[0]  # which raises for one that is larger
        if root not in (TypeRoot.TIME, TypeRoot.TIMESTAMP):
            return number
        millis, micros = divmod(number, 1000)
        if micros and (root is TypeRoot.TIME or type_.is_compact_timestamp):
            raise corrupt(f"key is no {type_}. microseconds={number}")
        return millis if root is TypeRoot.TIME else (millis, micros * 1000)
    match root:
        case TypeRoot.STRING | TypeRoot.CHAR:
            return key.decode()
        case TypeRoot.BYTES | TypeRoot.BINARY:
            return key
        case TypeRoot.DECIMAL:
            return decode_unscaled(type_, key)
    raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, f"Iceberg has no keys of this type. type={type_}")


def _encode_iceberg(type_: DataType, value: Any) -> bytes:
    root = type_.root
    if root in _ICEBERG_NUMBERS:
        if root is TypeRoot.TIME:
            value *= 1000
        elif root is TypeRoot.TIMESTAMP:
            value = value[0] * 1000 + value[1] // 1000
        return _ICEBERG_NUMBERS[root].pack(value)
    if root is TypeRoot.DECIMAL:
        # The unscaled value, the high bytes first and as few as keep the sign, whatever its precision.
        return encode_field(RowFormat.INDEXED, DataType(TypeRoot.DECIMAL, precision=38, scale=type_.scale), value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _encode_paimon(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    head = _paimon_head(types)
    out = bytearray(head + _WORD_BYTES * len(types))
    for number, (type_, value) in enumerate(zip(types, values, strict=True)):
        at = head + _WORD_BYTES * number
        out[at : at + _WORD_BYTES] = encode_element(RowFormat.COMPACTED, type_, value, out).ljust(_WORD_BYTES, b"\0")
    return bytes(out)


def _paimon_head(types: Sequence[DataType]) -> int:
    """What is before the words: bits for nulls, and before these a byte for the kind of change."""
    return (len(types) + 63 + 8) // 64 * _WORD_BYTES


def _decode_paimon(types: Sequence[DataType], key: bytes) -> list[Any]:
    head = _paimon_head(types)
    end = head + _WORD_BYTES * len(types)
    if len(key) < end or any(key[:head]):
        raise corrupt(f"key is no row of Paimon without nulls. length={len(key)} columns={len(types)}")
    values = []
    for number, type_ in enumerate(types):
        value = element_reader(RowFormat.COMPACTED, type_, key)(head + _WORD_BYTES * number)
        end += _paimon_behind(type_, value)
        values.append(value)
    _check_end(key, end)
    return values


def _paimon_behind(type_: DataType, value: Any) -> int:
    """How many bytes of a value are behind the words."""
    if type_.root in _INLINE:
        size = len(value.encode() if isinstance(value, str) else value)
        return 0 if size <= INLINE_MAX else aligned(size)
    if type_.root is TypeRoot.DECIMAL:
        return 0 if type_.is_compact_decimal else 2 * _WORD_BYTES
    return _WORD_BYTES if type_.root in _TIMESTAMPS and not type_.is_compact_timestamp else 0


def _check_end(key: bytes, end: int) -> None:
    if end != len(key):
        raise corrupt(f"key has another length than its columns. length={len(key)} columns={end}")
