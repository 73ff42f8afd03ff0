"""Opens the SQLite file, and translates SQLite's errors."""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from lakebed.core.errors import AlreadyExists, Corrupted, StorageFull, Unavailable

from .wal_sync import sync_folder
from .write_lock import WriteLock

PAGE_BYTES: Final = 4096
"""ADR 4: larger pages make small commits write more WAL than they save on 4 KiB bodies."""

_CACHE_KIB = 16 * 1024
"""ADR 4: a commit of another process empties it, so caching more than the inner pages of hot trees is wasted."""

_STATEMENTS = 512
"""Prepared statements kept: more than the product has."""

BUSY_MS = 50
"""How long a read may wait inside SQLite, which happens only while another process recovers the WAL after a crash."""

_LOG_KEPT_BYTES = 48 << 20
"""A larger WAL is truncated when it restarts. Below, overwriting syncs faster than growing the file."""

_UNIQUE: Final = {apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID}
_UNUSABLE: Final = (
    apsw.BusyError,
    apsw.CantOpenError,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
    apsw.IOError,
    apsw.LockedError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
)
NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT}


def beside(database: Path, suffix: str) -> Path:
    """A side file of the database: `meta.db` and `-wal` make `meta.db-wal`."""
    return database.with_name(database.name + suffix)


def open_file(path: Path, write_lock: WriteLock) -> apsw.Connection:
    """Open or create the file for use by an event loop. Blocks.

    Holds the write lock: switching a new file to WAL requires exclusive access, and several workers start at once.
    """
    write_lock.acquire()
    try:
        _create(path)
        connection = connect(path)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # creates or recovers the WAL
            sync_folder(path.parent)
        except BaseException:
            connection.close()
            raise
        return connection
    except apsw.Error as error:
        raise translate(error) from error
    except OSError as error:
        kind = StorageFull if error.errno in NO_SPACE else Unavailable
        raise kind(f"cannot open the metadata file. path={path} error={error.strerror}") from error
    finally:
        write_lock.release()


def _create(path: Path) -> None:
    """Create the file with mode 0600: it contains keys. SQLite gives its side files the same mode."""
    with suppress(FileExistsError):
        # Only a new file: closing any descriptor of a file in use would drop SQLite's POSIX locks on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def connect(path: Path) -> apsw.Connection:
    """A configured connection."""
    connection = apsw.Connection(str(path), statementcachesize=_STATEMENTS)
    try:
        connection.set_busy_timeout(BUSY_MS)
        # Keep query plans. By default SQLite replans a join when its parameters change, since their values might
        # matter: 20 µs instead of 5 for the statement behind every GET.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for name, value in (
            ("page_size", PAGE_BYTES),
            ("journal_mode", "WAL"),
            ("synchronous", "NORMAL"),
            ("wal_autocheckpoint", 0),
            ("journal_size_limit", _LOG_KEPT_BYTES),
            ("cache_size", -_CACHE_KIB),
            ("mmap_size", 0),  # ADR 4: remapped after every commit of another process, and an I/O error kills
            ("temp_store", "MEMORY"),
            ("foreign_keys", 1),
        ):
            connection.execute(f"PRAGMA {name}={value}").fetchall()
        keep = ctypes.c_int(1)
        # The last connection to close would delete the WAL; another process may be about to sync it.
        connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))
    except BaseException:
        connection.close()
        raise
    return connection


def translate(error: apsw.Error, connection: apsw.Connection | None = None) -> Exception:
    """SQLite's error as an error of this product. Programming errors stay unchanged: callers cannot handle them."""
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, apsw.ConstraintError) and _extended_result(error) in _UNIQUE:
        return AlreadyExists(f"duplicate key. detail={detail}")
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _lacks_space(connection)):
        return StorageFull(f"no space left for metadata. detail={detail}")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corrupted(f"metadata file is damaged. detail={detail}")
    if isinstance(error, _UNUSABLE):
        return Unavailable(f"metadata file unavailable. detail={detail}")
    return error


def _lacks_space(connection: apsw.Connection | None) -> bool:
    return connection is not None and connection.system_errno in NO_SPACE


def _extended_result(error: apsw.Error) -> int:
    code: int = error.extendedresult  # type: ignore[attr-defined]  # set by the library, missing in its stub
    return code
