"""Record batches of many short rows, split and joined by `kv_records.c` where the build had a C compiler.

Between its bytes and lists of bytes is MessagePack, which msgspec reads and writes: a tenth of what a loop of Python
takes. What is not as it should be is not read here, and so not named here: `batches.py` does that, which reads and
writes everything where there is no library (ADR 36).
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
"""What the build makes of `kv_records.c`, where it can."""

_HEAD_BYTES: Final = 5
_RECORD_BYTES: Final = 5
_SCHEMA_ID_BYTES: Final = 2
_keys: Final = msgpack.Decoder(list[bytes])
_values: Final = msgpack.Decoder(list[bytes | None])
_packed: Final = msgpack.Encoder()


class KvRecords(NamedTuple):
    """What a batch has, record by record; and where the rows lie of those that have one."""

    keys: list[bytes]
    values: list[bytes | None]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@functools.cache
def load_library(path: Path = LIBRARY) -> Any | None:  # Any: functions of C
    """The library, if the package was built with it."""
    try:
        library = ctypes.CDLL(str(path))
        scan, join = library.lakebed_kv_records, library.lakebed_value_batch
    except (OSError, AttributeError):
        log.info("records of keys are read one by one: the package was built without a C compiler")
        return None
    address, number = ctypes.c_void_p, ctypes.c_int64
    scan.argtypes = (ctypes.c_char_p, number, number, number, ctypes.c_uint16, *(address,) * 5)
    join.argtypes = (ctypes.c_char_p, number, address)
    scan.restype = join.restype = number
    return library


def scan_records(data: bytes, begin: int, size: int, count: int, schema_id: int) -> KvRecords | None:
    """The records between `begin` and `size`, if these are so many; with their schema before the values."""
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
    """All values, each behind its length."""
    library = load_library()
    if library is None:
        return None
    packed = _packed.encode(values)
    joined = np.empty(len(packed) + 2 * len(values), np.uint8)
    used = library.lakebed_value_batch(packed, len(packed), joined.ctypes.data)
    return None if used < 0 else joined[:used].tobytes()
