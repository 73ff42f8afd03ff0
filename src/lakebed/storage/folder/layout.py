"""Maps keys to file names that every file system accepts, and back, in key order (ADR 2).

A key is split into segments at `/`. In each segment, all but plain letters, digits, `-`, `_` and `.` are written as
`%XX`. A suffix that no escaped segment contains gives the type of a name:

    NAME     a folder: the keys that continue with `NAME/`
    NAME@    an object: the key that ends with NAME
    NAME+    a folder: the keys whose segment continues after NAME, because it is too long for one file name

So `a` and `a/b` are `a@` and `a/b@`, and can coexist. A segment is split after the first byte at which its escaped form
reaches `_MAX_NAME`. Only the `+` folder begins with those bytes, so the keys of one folder are contiguous in a listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

__all__ = ["folder_path", "object_path", "walk_objects"]

_MAX_NAME: Final = 160
"""Escaped length at which a segment is split. The last byte may add three: 163 with the suffix, of at most 255."""

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_ESCAPED: Final = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256))
_NAME: Final = re.compile(r"((?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+|%)([@+]?)")

_BLOB_KEY: Final = re.compile(rb"[a-z0-9]{1,64}(?:/[a-z0-9]{1,64})*")
"""A fast path for keys of blobs, whose path is the key itself: every large request maps one."""


def object_path(key: bytes) -> str:
    """The object's file, relative to the folder of all objects. `key` must be valid."""
    if _BLOB_KEY.fullmatch(key) is not None:
        return key.decode() + "@"
    *folders, last = key.split(b"/")
    names = [name for segment in folders for name in _names(segment)]
    names.extend(_names(last))
    return "/".join(names) + "@"


def folder_path(prefix: bytes) -> str | None:
    """The folder of the keys that start with `prefix`, which ends with `/` or is empty. None if no key can match."""
    if not prefix:
        return ""
    segments = prefix[:-1].split(b"/")
    if any(segment in (b"", b".", b"..") or b"\0" in segment for segment in segments):
        return None
    return "/".join(name for segment in segments for name in _names(segment))


def walk_objects(root: str, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, str]]:
    """Keys under `prefix` after `after` with their files, in byte order.

    Reads names only, one folder at a time, and only folders that may contain such keys. Holds the names in the folders
    on the current path.
    """
    base = prefix[: prefix.rfind(b"/") + 1]
    start = folder_path(base)
    if start is None:
        return
    # An explicit stack, because a key may have 512 parent folders, too deep for nested generators.
    pending = [(base, f"{root}/{start}" if start else root, True)]
    while pending:
        key, path, is_folder = pending.pop()
        if is_folder:
            found = _entries(key, path, prefix, after)
            found.sort(reverse=True)
            pending.extend(found)
        else:
            yield key, path


def _entries(base: bytes, path: str, prefix: bytes, after: bytes) -> list[tuple[bytes, str, bool]]:
    """The matching keys and subfolders in one folder. A subfolder is ordered by the common prefix of its keys."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []  # removed since its name was read, or never existed
    found: list[tuple[bytes, str, bool]] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue  # created by another program
        escaped, mark = match.groups()
        key = base + _unescaped(escaped)
        if mark == "@":
            if key > after and key.startswith(prefix):
                found.append((key, f"{path}/{name}", False))
            continue
        if not mark:
            key += b"/"
        if (key.startswith(prefix) or prefix.startswith(key)) and (key > after or after.startswith(key)):
            found.append((key, f"{path}/{name}", True))
    return found


def _names(segment: bytes) -> Iterator[str]:
    """The names of one segment: `+` folders while it is too long, then the rest without its suffix."""
    pieces: list[str] = []
    length = 0
    for byte in segment:
        piece = _ESCAPED[byte]
        pieces.append(piece)
        length += len(piece)
        if length >= _MAX_NAME:
            yield "".join(pieces) + "+"
            pieces.clear()
            length = 0
    name = "".join(pieces)
    if name in (".", ".."):
        name = name.replace(".", "%2E")  # the rest of a long segment may be a reserved name
    yield name or "%"


def _unescaped(name: str) -> bytes:
    if "%" not in name:
        return name.encode()
    first, *rest = name.encode().split(b"%")
    return first + b"".join(bytes.fromhex(piece[:2].decode()) + piece[2:] for piece in rest if piece)
