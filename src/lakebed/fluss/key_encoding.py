"""Key encodings: Fluss's compacted encoding, and those of Iceberg and Paimon.

Writers hash the encoded key for the bucket, and each lake format has its own bucketing. So keys of a table with a lake
format use that format's encoding. Exception: if the bucket key has fewer columns than the key, its encoding must be a
prefix of the key's, which only the compacted encoding guarantees. Key format version 1 has no such exception.

An Iceberg key is one column: integers and times (in microseconds) of 64 bits, little-endian; text and bytes unchanged;
a decimal as its unscaled value, big-endian. A Paimon key is a `BinaryRow`: a byte for the change type, null bits up to
the next word, a word for each column, and a variable-length part for what does not fit a word.
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
from .types import BYTE_STRINGS, TIMESTAMPS, DataType, TypeRoot

__all__ = ["KeyEncoding", "check_key_types", "choose_encoding", "decode_key", "encode_key"]

_WORD_BYTES: Final = 8
_ICEBERG_NUMBERS: Final = {
    TypeRoot.INT: struct.Struct("<q"),
    TypeRoot.DATE: struct.Struct("<q"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.TIME: struct.Struct("<q"),
    TypeRoot.TIMESTAMP: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_ICEBERG_TYPES: Final = _ICEBERG_NUMBERS.keys() | BYTE_STRINGS | {TypeRoot.DECIMAL}


class KeyEncoding(StrEnum):
    """How keys are encoded, by lake format."""

    COMPACTED = ""
    ICEBERG = "iceberg"
    PAIMON = "paimon"


def choose_encoding(lake: str, version: int, key: Sequence[str], bucket_key: Sequence[str]) -> KeyEncoding:
    """The key encoding of a table with this lake format and key format version.

    `key` has the columns of the encoded key: the primary key without partition keys.
    """
    if lake not in (KeyEncoding.ICEBERG, KeyEncoding.PAIMON):
        return KeyEncoding.COMPACTED  # other lake formats have no key encoding of their own
    if lake == KeyEncoding.ICEBERG and len(key) != 1:
        return KeyEncoding.COMPACTED  # Iceberg encodes single columns only, so the bucket key is one of them
    return KeyEncoding(lake) if version == 1 or tuple(bucket_key) == tuple(key) else KeyEncoding.COMPACTED


def check_key_types(encoding: KeyEncoding, types: Sequence[DataType]) -> None:
    """Raise INVALID_TABLE unless the encoding supports keys of these types."""
    if encoding is KeyEncoding.ICEBERG and (len(types) != 1 or types[0].root not in _ICEBERG_TYPES):
        raise FlussError(
            ErrorCode.INVALID_TABLE,
            "a bucket key for Iceberg must be one column, not of type BOOLEAN, TINYINT, SMALLINT or TIMESTAMP_LTZ. "
            f"types={', '.join(map(str, types))}",
        )


def encode_key(encoding: KeyEncoding, types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """Encode a key without nulls, of types that `check_key_types` accepts."""
    match encoding:
        case KeyEncoding.ICEBERG:
            ((type_, value),) = zip(types, values, strict=True)
            return _encode_iceberg(type_, value)
        case KeyEncoding.PAIMON:
            return _encode_paimon(types, values)
        case _:
            fields = zip(types, values, strict=True)
            return b"".join(encode_field(RowFormat.COMPACTED, type_, value) for type_, value in fields)


def decode_key(encoding: KeyEncoding, types: Sequence[DataType], key: bytes) -> list[Any]:
    """Decode the values of a key. Raises CORRUPT_RECORD for a malformed key."""
    try:
        match encoding:
            case KeyEncoding.ICEBERG:
                return [_decode_iceberg(types, key)]
            case KeyEncoding.PAIMON:
                return _decode_paimon(types, key)
            case _:
                return _decode_compacted(types, key)
    except NOT_A_VALUE as error:
        raise corrupt(f"invalid key. length={len(key)}") from error


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
            return struct.unpack("<i", struct.pack("<i", number))[0]  # raises for larger numbers
        if root not in (TypeRoot.TIME, TypeRoot.TIMESTAMP):
            return number
        millis, micros = divmod(number, 1000)
        if micros and (root is TypeRoot.TIME or type_.is_compact_timestamp):
            raise corrupt(f"key has microseconds that its type does not have. type={type_} microseconds={number}")
        return millis if root is TypeRoot.TIME else (millis, micros * 1000)
    match root:
        case TypeRoot.STRING | TypeRoot.CHAR:
            return key.decode()
        case TypeRoot.BYTES | TypeRoot.BINARY:
            return key
        case TypeRoot.DECIMAL:
            return decode_unscaled(type_, key)
    raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, f"type is not supported in Iceberg keys. type={type_}")


def _encode_iceberg(type_: DataType, value: Any) -> bytes:
    root = type_.root
    if root in _ICEBERG_NUMBERS:
        if root is TypeRoot.TIME:
            value *= 1000
        elif root is TypeRoot.TIMESTAMP:
            value = value[0] * 1000 + value[1] // 1000
        return _ICEBERG_NUMBERS[root].pack(value)
    if root is TypeRoot.DECIMAL:
        # The unscaled value, big-endian, in as few bytes as keep the sign, whatever its precision.
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
    """The bytes before the words: the change type and the null bits."""
    return (len(types) + 63 + 8) // 64 * _WORD_BYTES


def _decode_paimon(types: Sequence[DataType], key: bytes) -> list[Any]:
    head = _paimon_head(types)
    end = head + _WORD_BYTES * len(types)
    if len(key) < end or any(key[:head]):
        raise corrupt(f"key is not a Paimon row without nulls. length={len(key)} columns={len(types)}")
    values = []
    for number, type_ in enumerate(types):
        value = element_reader(RowFormat.COMPACTED, type_, key)(head + _WORD_BYTES * number)
        end += _paimon_behind(type_, value)
        values.append(value)
    _check_end(key, end)
    return values


def _paimon_behind(type_: DataType, value: Any) -> int:
    """The bytes of a value in the variable-length part."""
    if type_.root in BYTE_STRINGS:
        size = len(value.encode() if isinstance(value, str) else value)
        return 0 if size <= INLINE_MAX else aligned(size)
    if type_.root is TypeRoot.DECIMAL:
        return 0 if type_.is_compact_decimal else 2 * _WORD_BYTES
    return _WORD_BYTES if type_.root in TIMESTAMPS and not type_.is_compact_timestamp else 0


def _check_end(key: bytes, end: int) -> None:
    if end != len(key):
        raise corrupt(f"key length does not match its columns. length={len(key)} columns={end}")
