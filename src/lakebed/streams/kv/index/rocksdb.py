"""A KV index in RocksDB, with a block cache and write buffers that all buckets share.

It has no write-ahead log: the bucket's log serves as one. Writes are buffered in memory (`write_buffer`). Every write
to RocksDB contains its log offset in a second column family, which is flushed atomically with the rows. So after a
crash the index is consistent as of one offset.
"""

from __future__ import annotations

import secrets
import shutil
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ChecksumType,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.durations import Durations

from .seam import KvIndexSnapshot
from .write_buffer import UNKNOWN, WriteBuffer, WriteBufferMemory

__all__ = ["RocksIndex", "RocksMemory"]

_STATE_FAMILY: Final = "state"
_STATE: Final = b"state"
_LINEAGE: Final = b"lineage"
_OFFSET_AND_COUNT: Final = struct.Struct("<qq")
_NOT_COUNTED: Final = -1
_BUFFER_BYTES: Final = 32 * 1024 * 1024
"""Size of a memtable. Smaller ones are compacted more often; larger ones take longer to replay."""

_BUFFER_FILTER: Final = 0.1
"""The share of a memtable for its bloom filter, which halves the time of lookups."""

_FILE_BYTES: Final = 64 * 1024 * 1024
_LENGTH_BYTES: Final = 4
_SORTED_FROM: Final = 1024
"""From so many keys on, reads are sorted: neighbours are in the same block."""


class RocksMemory:
    """Memory that the indexes of all buckets share."""

    def __init__(
        self,
        cache_bytes: int = 192 * 1024 * 1024,
        buffer_bytes: int = 64 * 1024 * 1024,
        warm: WriteBufferMemory | None = None,
    ) -> None:
        """`cache_bytes` are for reads; memtables of more than `buffer_bytes` in total are flushed."""
        self.cache = Cache(cache_bytes)
        self.buffers = WriteBufferManager(buffer_bytes, False)
        self.warm = WriteBufferMemory() if warm is None else warm
        self.flushes = Durations()
        """Durations of flushes to disk, of all buckets."""


class RocksIndex:
    """The index of one bucket, in its own folder. Implements `KvIndex`."""

    def __init__(self, folder: Path, memory: RocksMemory) -> None:
        """Open the index, or create it. Raises KV_STORAGE."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = _options(memory)
        try:
            # Any: rocksdict's type hints are too broad, and some are wrong.
            self._db: Any = Rdict(str(folder), options, column_families={_STATE_FAMILY: _options(memory)})
        except Exception as error:
            raise FlussError(ErrorCode.KV_STORAGE, f"KV index cannot be opened. folder={folder.name}") from error
        self._family: Any = self._db.get_column_family_handle(_STATE_FAMILY)
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, despite its type
        state = self._db.get_column_family(_STATE_FAMILY)
        self.lineage = _lineage(state)
        """Identifies this index among all that its bucket had: the same file name and lineage mean the same file."""

        found = state.get(_STATE)
        offset, count = (0, 0) if found is None else _OFFSET_AND_COUNT.unpack(found)
        self._spilled: tuple[int, int | None] = offset, None if count == _NOT_COUNTED else count
        self.flushed_offset: int = offset
        """The log offset up to which the index is on disk; it may be further."""

        self._views: weakref.WeakSet[_RocksView] = weakref.WeakSet()
        self._buffer = WriteBuffer(memory.warm, *self._spilled)
        # Held by one spill, view or checkpoint at a time, so that each has a consistent offset.
        self._lock = threading.Lock()
        self._flushes = memory.flushes
        self.is_closed = False

    @property
    def log_offset(self) -> int:
        """The log offset of the first change that it does not contain."""
        return self._buffer.log_offset

    @property
    def row_count(self) -> int | None:
        """The number of keys, if it is counted."""
        return self._buffer.row_count

    @property
    def is_full(self) -> bool:
        """Whether `spill` should be called, because the write buffer is full."""
        return self._buffer.is_full

    def get_cached(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all are in memory; otherwise None."""
        return self._buffer.find_all(keys)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        found = self._buffer.find(keys)
        missing = [key for key, value in zip(keys, found, strict=True) if value is UNKNOWN]
        if not missing:
            return found
        values = iter(self._read(missing))
        return [next(values) if value is UNKNOWN else value for value in found]

    def _read(self, keys: list[bytes]) -> list[bytes | None]:
        if len(keys) < _SORTED_FROM:
            return list(self._db.get(keys))
        ordered = sorted(set(keys))
        values = dict(zip(ordered, self._db.get(ordered), strict=True))
        return [values[key] for key in keys]

    def get_prefixed(self, prefix: bytes) -> Iterator[bytes]:
        """The values of keys by prefix."""
        self.spill()
        for key, value in self._db.items(from_key=prefix):
            if not key.startswith(prefix):
                break
            yield value

    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Apply changes in memory."""
        self._buffer.add(values, log_offset, row_count)

    def spill(self) -> None:
        """Write the buffer to RocksDB, without a flush to disk."""
        with self._lock:
            self._spill()

    def _spill(self) -> None:
        """Spill, with the lock held."""
        taken = self._buffer.take()
        if taken is None:
            return
        try:
            batch = WriteBatch(raw_mode=True)
            values = taken.values
            deleted = [key for key, value in values.items() if value is None]
            present = sorted(values.keys() - deleted) if deleted else sorted(values)
            deque(map(batch.put, present, map(values.__getitem__, present)), maxlen=0)
            deque(map(batch.delete, deleted), maxlen=0)
            batch.put(_STATE, _state(taken.log_offset, taken.row_count), self._family)
            self._db.write(batch, self._unlogged)
        except BaseException:
            self._buffer.finish(taken, is_on_disk=False)
            raise
        self._spilled = taken.log_offset, taken.row_count
        self._buffer.finish(taken, is_on_disk=True)

    def view(self) -> KvIndexSnapshot:
        """A snapshot of the current index."""
        with self._lock:
            self._spill()
            view = _RocksView(self._db.snapshot(), self._spilled[0])
        self._views.add(view)
        return view

    def flush(self) -> None:
        """Flush the index to disk, so that it need not be replayed."""
        self.spill()
        offset = self._spilled[0]
        self._flush()
        self.flushed_offset = max(offset, self.flushed_offset)

    def _flush(self) -> None:
        """Flush rows, then their offset. Rows without an offset are replayed, which changes nothing."""
        began = time.monotonic()
        self._db.flush(True)
        self._db.get_column_family(_STATE_FAMILY).flush(True)
        self._flushes.add(time.monotonic() - began)

    def checkpoint(self, folder: Path) -> tuple[int, int | None]:
        """Write the current index to a new folder, by hard links. Returns its log offset and row count."""
        self.spill()
        self._flush()
        with self._lock:
            self._spill()
            self._flush()  # what came meanwhile
            Checkpoint(self._db).create_checkpoint(str(folder))
            state = self._spilled
        # Clients that open the folder expect one column family.
        copy = Rdict(str(folder), _plain_options(), column_families={_STATE_FAMILY: _plain_options()})
        copy.drop_column_family(_STATE_FAMILY)
        copy.close()
        return state

    @staticmethod
    def import_checkpoint(folder: Path, log_offset: int, row_count: int | None) -> None:
        """Make an index of the files of a `checkpoint` with this offset and row count."""
        db = Rdict(str(folder), _plain_options(), column_families={_STATE_FAMILY: _plain_options()})
        state = db.get_column_family(_STATE_FAMILY)
        state.put(_STATE, _state(log_offset, row_count))
        state.flush(True)
        state.close()
        db.close()

    def close(self) -> None:
        """Flush to disk and close."""
        if self.is_closed:
            return
        self.is_closed = True
        for view in list(self._views):
            view.close()
        try:
            self.spill()
            self._flush()
        finally:
            self._buffer.close()
        self._family = None  # a reference to any part keeps the whole database open
        self._db.close()

    @staticmethod
    def remove(folder: Path) -> None:
        """Delete a closed index."""
        shutil.rmtree(folder, ignore_errors=True)


class _RocksView:
    """A RocksDB snapshot that is read in key order. Implements `KvIndexSnapshot`."""

    def __init__(self, snapshot: Any, log_offset: int) -> None:
        self.log_offset = log_offset
        self._values: Iterator[bytes] | None = iter(snapshot.values())
        self._next: bytes | None = next(self._values, None)
        # Reads run in threads; close may be called from any thread.
        self._lock = threading.Lock()

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        with self._lock:
            value, values = self._next, self._values
            if values is None:
                raise FlussError(ErrorCode.SCANNER_EXPIRED, "scan is closed")
            if value is None or limit == 0:
                return [], value is not None
            taken = [value]
            left = max_bytes - _LENGTH_BYTES - len(value)
            if left > 0:
                # A tight loop: a large scan spends most of its time here.
                for value in islice(values, None if limit is None else limit - 1):
                    taken.append(value)
                    left -= _LENGTH_BYTES + len(value)
                    if left <= 0:
                        break
            self._next = next(values, None)
            return taken, self._next is not None

    def close(self) -> None:
        with self._lock:
            # An open iterator would keep the database open.
            self._values = self._next = None


def _state(log_offset: int, row_count: int | None) -> bytes:
    return _OFFSET_AND_COUNT.pack(log_offset, _NOT_COUNTED if row_count is None else row_count)


def _lineage(state: Any) -> str:
    found = state.get(_LINEAGE)
    if found is None:
        found = secrets.token_hex(8).encode()
        state.put(_LINEAGE, found)
        state.flush(True)
    return bytes(found).decode()


def _plain_options() -> Options:
    """Options for opening files that must not change."""
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    options.set_disable_auto_compactions(True)
    options.set_keep_log_file_num(1)
    return options


def _options(memory: RocksMemory) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(memory.cache)
    table.set_bloom_filter(10, False)
    # So that memory does not grow with the number of keys. Partitioned, because whole filters and indexes of files
    # take megabytes: they would evict each other from the cache, and be read again for single keys.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Clients read snapshots with their own RocksDB version, which may not support later formats and checksums.
    table.set_format_version(5)
    table.set_checksum_type(ChecksumType.xxhash64())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(memory.buffers)
    options.set_write_buffer_size(_BUFFER_BYTES)
    options.set_max_write_buffer_number(4)
    options.set_memtable_prefix_bloom_ratio(_BUFFER_FILTER)
    options.set_memtable_whole_key_filtering(True)
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1024 * 1024)
    return options
