"""Splits and joins record batches of many short rows with `kv_records.c`, if the build had a C compiler.

C and Python exchange lists of bytes as MessagePack, which msgspec converts: ten times as fast as a loop in Python.
Malformed batches return None; `kv_batches.py` then reports the error. It also works without the library (ADR 36).
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import msgpack

log = logging.getLogger("lakebed.streams")

__all__ = ["LIBRARY", "KvRecords", "join_values", "load_library", "scan_records"]

LIBRARY: Final = Path(__file__).with_name("_kv_records.so")
"""What the build compiles from `kv_records.c`."""

_HEAD_BYTES: Final = 5
_RECORD_BYTES: Final = 5
_SCHEMA_ID_BYTES: Final = 2
_keys: Final = msgpack.Decoder(list[bytes])
_values: Final = msgpack.Decoder(list[bytes | None])
_packed: Final = msgpack.Encoder()


class KvRecords(NamedTuple):
    """The records of a batch, and the positions of those with a row."""

    keys: list[bytes]
    values: list[bytes | None]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@functools.cache
def load_library(path: Path = LIBRARY) -> Any | None:  # Any: functions of C
    """The library, or None if the package was built without it."""
    try:
        library = ctypes.CDLL(str(path))
        scan, join = library.lakebed_kv_records, library.lakebed_value_batch
    except (OSError, AttributeError):
        log.info("C library for KV records is not available, using Python: the package was built without a C compiler")
        return None
    address, number = ctypes.c_void_p, ctypes.c_int64
    scan.argtypes = (ctypes.c_char_p, number, number, number, ctypes.c_uint16, *(address,) * 5)
    join.argtypes = (ctypes.c_char_p, number, address)
    scan.restype = join.restype = number
    return library


def scan_records(data: bytes, begin: int, size: int, count: int, schema_id: int) -> KvRecords | None:
    """Split the bytes from `begin` to `size` into `count` records. Values are prefixed with their schema id."""
    library = load_library()
    length = size - begin
    if library is None or not 0 <= count * _RECORD_BYTES <= length:
        return None
    keys = np.empty(_HEAD_BYTES + length + count * _RECORD_BYTES, np.uint8)
    values = np.empty(len(keys) + count * _SCHEMA_ID_BYTES, np.uint8)
    places, used = np.empty((2, count), np.int64), np.empty(2, np.int64)
    addresses = (keys.ctypes.data, values.ctypes.data, places[0].ctypes.data, places[1].ctypes.data, used.ctypes.data)
    rows = library.lakebed_kv_records(data, begin, size, count, schema_id & 0xFFFF, *addresses)
    if rows < 0:
        return None
    key_bytes, value_bytes = used.tolist()
    return KvRecords(
        _keys.decode(keys[:key_bytes].data),
        _values.decode(values[:value_bytes].data),
        places[0, :rows],
        places[1, :rows],
    )


def join_values(values: Sequence[bytes]) -> bytes | None:
    """All values, each prefixed with its length."""
    library = load_library()
    if library is None:
        return None
    packed = _packed.encode(values)
    joined = np.empty(len(packed) + 2 * len(values), np.uint8)
    used = library.lakebed_value_batch(packed, len(packed), joined.ctypes.data)
    return None if used < 0 else joined[:used].tobytes()
