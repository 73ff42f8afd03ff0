"""An index in RocksDB: keys on disk, with what is read often and what came last in memory that all buckets share.

Nothing is written ahead: the log of the bucket is. What comes is held in memory (`warm`) until it is worth a write.
Every write carries the log offset that it makes true in a second column family, and both are flushed together or not at
all, so whatever a crash leaves is the index as of one offset.
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
"""Of writes before they are flushed. A smaller one is merged more often, a larger one is longer to replay."""

_BUFFER_FILTER: Final = 0.1
"""The share of a buffer that says which keys are not in it: half of the time of a lookup otherwise."""

_FILE_BYTES: Final = 64 * 1024 * 1024
_LENGTH_BYTES: Final = 4
_SORTED_FROM: Final = 1024
"""Keys that are read at once in their order rather than in that of asking: neighbours lie in one block."""


class RocksMemory:
    """What the indexes of all buckets have in memory together."""

    def __init__(
        self,
        cache_bytes: int = 192 * 1024 * 1024,
        buffer_bytes: int = 64 * 1024 * 1024,
        warm: WriteBufferMemory | None = None,
    ) -> None:
        """`buffer_bytes` of writes are held before the largest of them are flushed; the cache is for reading."""
        self.cache = Cache(cache_bytes)
        self.buffers = WriteBufferManager(buffer_bytes, False)
        self.warm = WriteBufferMemory() if warm is None else warm
        self.flushes = Durations()
        """How long it takes to bring to disk what is in memory alone: not memory, but shared as that is."""


class RocksIndex:
    """The index of one bucket, in a folder of its own (`KeyIndex`)."""

    def __init__(self, folder: Path, memory: RocksMemory) -> None:
        """Open what is there, or begin anew; raises KV_STORAGE."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = _options(memory)
        try:
            # Its types say that keys may be much else than bytes, and some of them are not true.
            self._db: Any = Rdict(str(folder), options, column_families={_STATE_FAMILY: _options(memory)})
        except Exception as error:
            raise FlussError(ErrorCode.KV_STORAGE, f"index cannot be opened. folder={folder.name}") from error
        self._family: Any = self._db.get_column_family_handle(_STATE_FAMILY)
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever it is typed
        state = self._db.get_column_family(_STATE_FAMILY)
        self.lineage = _lineage(state)
        """Names this index among all that its bucket had: of files with one name and lineage there is one."""

        found = state.get(_STATE)
        offset, count = (0, 0) if found is None else _OFFSET_AND_COUNT.unpack(found)
        self._spilled: tuple[int, int | None] = offset, None if count == _NOT_COUNTED else count
        self.flushed_offset: int = offset
        """All before it is on disk, and perhaps more."""

        self._views: weakref.WeakSet[_RocksView] = weakref.WeakSet()
        self._warm = WriteBuffer(memory.warm, *self._spilled)
        # What is brought to disk is all up to one offset, by one at a time; and nobody takes a view meanwhile.
        self._moment = threading.Lock()
        self._flushes = memory.flushes
        self.is_closed = False

    @property
    def log_offset(self) -> int:
        """Where the changes begin that it does not have."""
        return self._warm.log_offset

    @property
    def row_count(self) -> int | None:
        """How many keys it has, if that was counted."""
        return self._warm.row_count

    @property
    def is_full(self) -> bool:
        """Whether so much is in memory alone that `spill` should be called."""
        return self._warm.is_full

    def recall(self, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The values of these keys if all of them are in memory."""
        return self._warm.find_all(keys)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys."""
        found = self._warm.find(keys)
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
        """The values of all keys that begin so."""
        self.spill()
        for key, value in self._db.items(from_key=prefix):
            if not key.startswith(prefix):
                break
            yield value

    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        """Have these values."""
        self._warm.give(values, log_offset, row_count)

    def spill(self) -> None:
        """Bring to disk, though not to stay there, what is in memory alone."""
        with self._moment:
            self._spill()

    def _spill(self) -> None:
        """With the moment held: nobody else takes what is fresh."""
        taken = self._warm.take()
        if taken is None:
            return
        try:
            batch = WriteBatch(raw_mode=True)
            values = taken.values
            gone = [key for key, value in values.items() if value is None]
            there = sorted(values.keys() - gone) if gone else sorted(values)
            deque(map(batch.put, there, map(values.__getitem__, there)), maxlen=0)
            deque(map(batch.delete, gone), maxlen=0)
            batch.put(_STATE, _state(taken.log_offset, taken.row_count), self._family)
            self._db.write(batch, self._unlogged)
        except BaseException:
            self._warm.taken(taken, is_on_disk=False)
            raise
        self._spilled = taken.log_offset, taken.row_count
        self._warm.taken(taken, is_on_disk=True)

    def view(self) -> KvIndexSnapshot:
        """The index as it is now."""
        with self._moment:
            self._spill()
            view = _RocksView(self._db.snapshot(), self._spilled[0])
        self._views.add(view)
        return view

    def flush(self) -> None:
        """Have on disk what is only in memory, so that it need not be replayed."""
        self.spill()
        offset = self._spilled[0]
        self._flush()
        self.flushed_offset = max(offset, self.flushed_offset)

    def _flush(self) -> None:
        """Of rows, then of how far they go: what is flushed without that is replayed, and changes nothing."""
        began = time.monotonic()
        self._db.flush(True)
        self._db.get_column_family(_STATE_FAMILY).flush(True)
        self._flushes.add(time.monotonic() - began)

    def checkpoint(self, folder: Path) -> tuple[int, int | None]:
        """The index as it is now as files in a new folder, by links to those it has; its offset and its count."""
        self.spill()
        self._flush()
        with self._moment:
            self._spill()
            self._flush()  # of the little that came meanwhile
            Checkpoint(self._db).create_checkpoint(str(folder))
            moment = self._spilled
        # Others who open the folder know of one column family.
        copy = Rdict(str(folder), _plain_options(), column_families={_STATE_FAMILY: _plain_options()})
        copy.drop_column_family(_STATE_FAMILY)
        copy.close()
        return moment

    @staticmethod
    def adopt(folder: Path, log_offset: int, row_count: int | None) -> None:
        """Make an index of files that `checkpoint` made, whose offset and count were these."""
        db = Rdict(str(folder), _plain_options(), column_families={_STATE_FAMILY: _plain_options()})
        state = db.get_column_family(_STATE_FAMILY)
        state.put(_STATE, _state(log_offset, row_count))
        state.flush(True)
        state.close()
        db.close()

    def close(self) -> None:
        """Have on disk what is only in memory, and let go of it."""
        if self.is_closed:
            return
        self.is_closed = True
        for view in list(self._views):
            view.close()
        try:
            self.spill()
            self._flush()
        finally:
            self._warm.close()
        self._family = None  # whoever holds a part of the database keeps all of it open
        self._db.close()

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove an index that is closed."""
        shutil.rmtree(folder, ignore_errors=True)


class _RocksView:
    """A snapshot that is read from the first key on (`KvIndexSnapshot`)."""

    def __init__(self, snapshot: Any, log_offset: int) -> None:
        self.log_offset = log_offset
        self._values: Iterator[bytes] | None = iter(snapshot.values())
        self._next: bytes | None = next(self._values, None)
        # Reading goes on in threads, closing comes from anywhere.
        self._lock = threading.Lock()

    def take(self, max_bytes: int, limit: int | None) -> tuple[list[bytes], bool]:
        with self._lock:
            value, values = self._next, self._values
            if values is None:
                raise FlussError(ErrorCode.SCANNER_EXPIRED, "scan was closed")
            if value is None or limit == 0:
                return [], value is not None
            taken = [value]
            left = max_bytes - _LENGTH_BYTES - len(value)
            if left > 0:
                # As little as can be for each: a large scan spends most of its time here.
                for value in islice(values, None if limit is None else limit - 1):
                    taken.append(value)
                    left -= _LENGTH_BYTES + len(value)
                    if left <= 0:
                        break
            self._next = next(values, None)
            return taken, self._next is not None

    def close(self) -> None:
        with self._lock:
            # The database stays open for as long as somebody holds an iterator of it.
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
    """For a look at files that are not to change."""
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    options.set_disable_auto_compactions(True)
    options.set_keep_log_file_num(1)
    return options


def _options(memory: RocksMemory) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(memory.cache)
    table.set_bloom_filter(10, False)
    # So that memory does not grow with the number of keys. In pieces as large as the blocks of rows that they share the
    # cache with: those of a whole file are megabytes, put each other out of it, and are read again for single keys.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Readers of snapshots bring a RocksDB of their own, which may know neither later formats nor later checksums.
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
