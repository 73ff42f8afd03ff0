"""The lock on a data folder: one server at a time.

The supervisor holds it through `flock`: the kernel releases it when the process ends, however it ends. Children close
their copy, so that children that briefly outlive a killed supervisor do not delay the next server. Commands that open
the folder beside a server do not take the lock.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from lakebed.core.errors import InvalidSetting, StateConflict

LOCK_FILE: Final = "server.lock"

PATIENCE_SECONDS: Final = 3.0
"""How long a server waits for another one that is shutting down."""

_PAUSE_SECONDS: Final = 0.05
_HOLDER_BYTES: Final = 1024


class DataFolderLock:
    """A held lock; released by `close` or at the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(
        cls,
        folder: Path,
        listen: str,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        pause: Callable[[float], None] = time.sleep,
    ) -> DataFolderLock:
        """Create the folder if absent, and lock it. `listen` is part of the error of a second server.

        Raises StateConflict if another server holds it; InvalidSetting if the folder or its file system is unusable.
        """
        path = folder / LOCK_FILE
        try:
            descriptor = _open(path)
        except OSError as error:
            raise _unusable(folder, error) from error
        try:
            _wait_for_lock(descriptor, folder, patience_seconds, pause)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"pid={os.getpid()} host={socket.gethostname()} listen={listen}".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise _unusable(folder, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def close(self) -> None:
        """Close this process's copy. The lock is released with the last copy of all forks."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> DataFolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _wait_for_lock(descriptor: int, folder: Path, patience_seconds: float, pause: Callable[[float], None]) -> None:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _taken(descriptor, folder) from None
        pause(_PAUSE_SECONDS)


def _taken(descriptor: int, folder: Path) -> StateConflict:
    holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip() or "pid=unknown"
    return StateConflict(
        "the data folder is in use by another server: stop that server, or use another folder with --data "
        f"(several servers share metadata in PostgreSQL and objects in S3, never a folder). folder={folder} "
        f"{holder}"
    )


def found_a_file(path: Path) -> InvalidSetting:
    """The error of a path in the data folder when one of its parents is a file."""
    file = next((parent for parent in path.parents if parent.is_file()), path.parent)
    return InvalidSetting(f"server.data: expected a folder, found a file; name another one with --data. path={file}")


def _unusable(folder: Path, error: OSError) -> InvalidSetting:
    if isinstance(error, NotADirectoryError):
        return found_a_file(folder / LOCK_FILE)
    return InvalidSetting(f"server.data: unusable folder. path={folder} reason={error.strerror}")
