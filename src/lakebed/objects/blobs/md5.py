"""The MD5 of bodies that arrive at the same time: several in one go, where the package was built with a C compiler.

S3 names what it stores by its MD5, which is half the work of taking in a large body. `md5_lanes.c` advances up to eight
bodies together for little more than the price of one; without it `hashlib` does them one by one (ADR 11).

Either way a body's bytes are given with `begin` as they come, and must stay as they are until `wait` has returned for
them. `wait` blocks: call it in a thread, while others may begin more.
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
"""What the build makes of `md5_lanes.c`, where it can."""

_MOST_PIECES: Final = 32
"""Of more than these in one call each is small: one copy of all is cheaper than an address for each."""


class RunningMd5(Protocol):
    """The hash of one body."""

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Add bytes; the number to wait for. Does not block."""
        ...

    def wait(self, number: int) -> None:
        """Return once all that was begun up to this number is taken in."""
        ...

    def digest(self) -> bytes:
        """The digest of all bytes so far, which must have been waited for. More may follow."""
        ...


MakeMd5: TypeAlias = Callable[[], RunningMd5]


class PlainMd5:
    """By hashlib: the work is done by whoever waits."""

    __slots__ = ("_begun", "_done", "_hash", "_waiting")

    def __init__(self) -> None:
        self._hash = hashlib.md5(usedforsecurity=False)
        self._waiting: deque[Sequence[Buffer]] = deque()
        self._begun = 0
        self._done = 0

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Add bytes."""
        self._waiting.append(pieces)
        self._begun += 1
        return self._begun

    def wait(self, number: int) -> None:
        """Take them in."""
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
    """The functions of `md5_lanes.c`, typed."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or AttributeError if this is not our library."""
        library = ctypes.CDLL(str(path))
        # Of those that return at once the interpreter is not let go, which would cost more than they do.
        at_once = ctypes.PyDLL(str(path))
        self.open = library.lakebed_md5_open
        self.open.restype = ctypes.c_void_p
        self.close = library.lakebed_md5_close
        self.close.argtypes = (ctypes.c_void_p,)
        self.close.restype = None
        self.new = at_once.lakebed_md5_new
        self.new.argtypes = (ctypes.c_void_p,)
        self.new.restype = ctypes.c_void_p
        self.free = library.lakebed_md5_free
        self.free.argtypes = (ctypes.c_void_p,)
        self.free.restype = None
        self.begin = at_once.lakebed_md5_begin
        self.begin.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Piece), ctypes.c_size_t)
        self.begin.restype = ctypes.c_uint64
        self.wait = library.lakebed_md5_wait
        self.wait.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        self.wait.restype = None
        self.digest = at_once.lakebed_md5_digest
        self.digest.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        self.digest.restype = None


class Md5Lanes:
    """A thread that hashes several bodies at once. It ends when neither this nor any of its bodies is referred to."""

    __slots__ = ("_address", "_library")

    def __init__(self, path: Path = LIBRARY) -> None:
        """Raises OSError or AttributeError where there is no such library, MemoryError where no thread can start."""
        self._address: int | None = None
        self._library = _Library(path)
        self._address = self._library.open()
        if self._address is None:
            raise MemoryError("no thread can be started for hashing")

    def new(self) -> LaneMd5:
        """The hash of a body of which nothing has come."""
        address = self._library.new(self._address)
        if address is None:
            raise MemoryError("no memory for a hash")
        return LaneMd5(self, self._library, address)

    def __del__(self) -> None:
        if self._address is not None:
            self._library.close(self._address)


class LaneMd5:
    """One body's hash in the lanes."""

    __slots__ = ("_address", "_lanes", "_lent", "_library")

    def __init__(self, lanes: Md5Lanes, library: _Library, address: int) -> None:
        self._lanes = lanes  # which must not end before this
        self._library = library
        self._address = address
        self._lent: deque[tuple[int, object]] = deque()

    def begin(self, pieces: Sequence[Buffer]) -> int:
        """Add bytes: the thread begins with them at once."""
        if len(pieces) > _MOST_PIECES:
            pieces = (b"".join(pieces),)
        lent = [_lend(piece) for piece in pieces if len(piece)]
        table = (_Piece * len(lent))(*(_Piece(address, len(piece)) for address, piece in lent))
        number: int = self._library.begin(self._address, table, len(lent))
        if not number:
            raise MemoryError("no memory for hashing")
        # The memory behind the addresses stays until the thread is done with it.
        self._lent.append((number, lent))
        return number

    def wait(self, number: int) -> None:
        """Return once they are taken in."""
        self._library.wait(self._address, number)
        while self._lent and self._lent[0][0] <= number:
            self._lent.popleft()

    def digest(self) -> bytes:
        """The digest of all bytes so far."""
        digest = ctypes.create_string_buffer(16)
        self._library.digest(self._address, digest)
        return digest.raw

    def __del__(self) -> None:
        # Waits for the thread: an upload that is given up leaves nothing behind that is still being read.
        self._library.free(self._address)


def _lend(piece: Buffer) -> tuple[int, Buffer]:
    """Where the bytes are, and what keeps them there."""
    if isinstance(piece, memoryview) and piece.readonly:
        piece = bytes(piece)  # the interpreter tells the address of no other view
    if isinstance(piece, bytes):
        address = ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value
        assert address is not None  # noqa: S101  # of an object there is one
        return address, piece
    return address_of(piece), piece


def md5_maker(path: Path = LIBRARY) -> MakeMd5:
    """How to hash the bodies of one process from now on: in lanes if the package was built with them."""
    try:
        return Md5Lanes(path).new
    except (OSError, AttributeError):
        log.info("bodies are hashed one at a time: the package was built without a C compiler")
        return PlainMd5
