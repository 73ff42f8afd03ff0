"""MD5 of concurrent bodies: several at once, if the package was built with a C compiler.

S3's ETag is an MD5, which is half the cost of a large upload. `md5_lanes.c` hashes up to eight bodies together for
little more than the cost of one; without it, `hashlib` hashes them one by one (ADR 11).

`begin` adds bytes, which must not change until `wait` returns for them. `wait` blocks: call it in a thread, while
other threads may call `begin`.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from lakebed.core.buffers import address_of
from lakebed.core.checksums import Buffer

__all__ = ["LIBRARY", "LaneMd5", "MakeMd5", "Md5Lanes", "PlainMd5", "RunningMd5", "md5_maker"]

log = logging.getLogger("lakebed.objects")

LIBRARY: Final = Path(__file__).with_name("_md5_lanes.so")
"""The compiled `md5_lanes.c`, if the build could compile it."""

_MOST_PIECES: Final = 32
"""With more pieces per call each is small: one copy of all is cheaper than an address for each."""


class RunningMd5(Protocol):
    """The running MD5 of one body."""

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Add bytes without blocking; the number to pass to `wait`."""
        ...

    def wait(self, number: int) -> None:
        """Block until everything up to this number is hashed."""
        ...

    def digest(self) -> bytes:
        """The digest of all bytes so far, after `wait`. More bytes may follow."""
        ...


MakeMd5: TypeAlias = Callable[[], RunningMd5]


class PlainMd5:
    """MD5 by hashlib; `wait` does the work."""

    __slots__ = ("_begun", "_done", "_hash", "_waiting")

    def __init__(self) -> None:
        self._hash = hashlib.md5(usedforsecurity=False)
        self._waiting: deque[Sequence[Buffer]] = deque()
        self._begun = 0
        self._done = 0

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Queue bytes."""
        self._waiting.append(pieces)
        self._begun += 1
        return self._begun

    def wait(self, number: int) -> None:
        """Hash the queued bytes."""
        while self._done < number:
            for piece in self._waiting.popleft():
                self._hash.update(piece)
            self._done += 1

    def digest(self) -> bytes:
        """The digest of all bytes so far."""
        return self._hash.digest()


class _Piece(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_void_p), ("count", ctypes.c_size_t))


class _Library:
    """The functions of `md5_lanes.c`, with types."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or AttributeError if this is not the expected library."""
        library = ctypes.CDLL(str(path))
        # Functions that return at once keep the GIL: releasing it would cost more than they do.
        holding_gil = ctypes.PyDLL(str(path))
        self.open = library.lakebed_md5_open
        self.open.restype = ctypes.c_void_p
        self.close = library.lakebed_md5_close
        self.close.argtypes = (ctypes.c_void_p,)
        self.close.restype = None
        self.new = holding_gil.lakebed_md5_new
        self.new.argtypes = (ctypes.c_void_p,)
        self.new.restype = ctypes.c_void_p
        self.free = library.lakebed_md5_free
        self.free.argtypes = (ctypes.c_void_p,)
        self.free.restype = None
        self.begin = holding_gil.lakebed_md5_begin
        self.begin.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Piece), ctypes.c_size_t)
        self.begin.restype = ctypes.c_uint64
        self.wait = library.lakebed_md5_wait
        self.wait.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        self.wait.restype = None
        self.digest = holding_gil.lakebed_md5_digest
        self.digest.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        self.digest.restype = None


class Md5Lanes:
    """A thread that hashes several bodies at once. It ends when neither this nor any of its bodies is referenced."""

    __slots__ = ("_address", "_library")

    def __init__(self, path: Path = LIBRARY) -> None:
        """Raises OSError or AttributeError if there is no such library, MemoryError if no thread can start."""
        self._address: int | None = None
        self._library = _Library(path)
        self._address = self._library.open()
        if self._address is None:
            raise MemoryError("cannot start the MD5 thread")

    def new(self) -> LaneMd5:
        """The hash of an empty body."""
        address = self._library.new(self._address)
        if address is None:
            raise MemoryError("out of memory for an MD5 hash")
        return LaneMd5(self, self._library, address)

    def __del__(self) -> None:
        if self._address is not None:
            self._library.close(self._address)


class LaneMd5:
    """The MD5 of one body, calculated in a lane."""

    __slots__ = ("_address", "_lanes", "_lent", "_library")

    def __init__(self, lanes: Md5Lanes, library: _Library, address: int) -> None:
        self._lanes = lanes  # must outlive this object
        self._library = library
        self._address = address
        self._lent: deque[tuple[int, object]] = deque()

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Add bytes; the thread starts hashing them at once."""
        if len(pieces) > _MOST_PIECES:
            pieces = (b"".join(pieces),)
        lent = [_lend(piece) for piece in pieces if len(piece)]
        table = (_Piece * len(lent))(*(_Piece(address, len(piece)) for address, piece in lent))
        number: int = self._library.begin(self._address, table, len(lent))
        if not number:
            raise MemoryError("out of memory for an MD5 hash")
        # Keep the memory behind the addresses until the thread has read it.
        self._lent.append((number, lent))
        return number

    def wait(self, number: int) -> None:
        """Block until everything up to this number is hashed."""
        self._library.wait(self._address, number)
        while self._lent and self._lent[0][0] <= number:
            self._lent.popleft()

    def digest(self) -> bytes:
        """The digest of all bytes so far."""
        digest = ctypes.create_string_buffer(16)
        self._library.digest(self._address, digest)
        return digest.raw

    def __del__(self) -> None:
        # Waits for the thread, so that the memory of an aborted upload is no longer read.
        self._library.free(self._address)


def _lend(piece: Buffer) -> tuple[int, Buffer]:
    """The address of the bytes, and the object that keeps them alive."""
    if isinstance(piece, memoryview) and piece.readonly:
        piece = bytes(piece)  # Python exposes no address of a read-only view
    if isinstance(piece, bytes):
        address = ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value
        assert address is not None  # noqa: S101  # bytes always have an address
        return address, piece
    return address_of(piece), piece


def md5_maker(path: Path = LIBRARY) -> MakeMd5:
    """The MD5 implementation for this process: in lanes if the library was built, else hashlib."""
    try:
        return Md5Lanes(path).new
    except (OSError, AttributeError):
        log.info("MD5 of concurrent uploads is calculated one at a time: the package was built without a C compiler")
        return PlainMd5
