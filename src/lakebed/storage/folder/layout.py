"""Where a key lives in a folder: names that any file system takes, in an order that can be restored (ADR 2).

A key is a path of its segments. Every segment is written with `%XX` for all but plain letters, digits, `-`, `_` and
`.`; then a mark that no escaped segment can hold says what the name stands for:

    NAME     a folder: the keys that go on with `NAME/`
    NAME@    an object: the key that ends with NAME
    NAME+    a folder: the keys whose segment goes on after NAME, because it is too long for one file name

So `a` and `a/b` are `a@` and `a/b@`, and live side by side. A segment is cut after the first byte at which its escaped
form reaches `_CUT`: nothing but the `+` folder begins with those bytes, so that the keys of one folder are one
contiguous run of the listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

__all__ = ["folder_path", "object_path", "walk_objects"]

_CUT: Final = 160
"""Escaped length at which a segment is cut. The last byte may add three: 163 with the mark, of the 255 there are."""

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_ESCAPED: Final = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256))
_NAME: Final = re.compile(r"((?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+|%)([@+]?)")

_HOT: Final = re.compile(rb"[a-z0-9]{1,64}(?:/[a-z0-9]{1,64})*")
"""Keys of blobs: their path is the key itself, and they are asked for on every large request."""


def object_path(key: bytes) -> str:
    """The object's file, relative to the folder of all objects. `key` was checked before."""
    if _HOT.fullmatch(key) is not None:
        return key.decode() + "@"
    *folders, last = key.split(b"/")
    names = [name for segment in folders for name in _names(segment)]
    names.extend(_names(last))
    return "/".join(names) + "@"


def folder_path(prefix: bytes) -> str | None:
    """The folder of the keys that start with `prefix`, which ends with `/` or is empty. None if no key can."""
    if not prefix:
        return ""
    segments = prefix[:-1].split(b"/")
    if any(segment in (b"", b".", b"..") or b"\0" in segment for segment in segments):
        return None
    return "/".join(name for segment in segments for name in _names(segment))


def walk_objects(root: str, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, str]]:
    """Keys under `prefix` after `after` with their files, ascending by bytes.

    Reads names only, one folder at a time, and only folders that can hold such keys. Holds the names of the folders
    on the way to the current one.
    """
    base = prefix[: prefix.rfind(b"/") + 1]
    start = folder_path(base)
    if start is None:
        return
    # An explicit stack: a key may have 512 folders above it, which is too deep for nested generators.
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
    """What one folder holds of the wanted keys. A subfolder is placed by what all its keys begin with."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []  # removed since its name was read, or never there
    found: list[tuple[bytes, str, bool]] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue  # not ours: an editor's or a file manager's
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
    """The names of one segment: `+` folders while it is too long, then the rest without its mark."""
    pieces: list[str] = []
    length = 0
    for byte in segment:
        piece = _ESCAPED[byte]
        pieces.append(piece)
        length += len(piece)
        if length >= _CUT:
            yield "".join(pieces) + "+"
            pieces.clear()
            length = 0
    name = "".join(pieces)
    if name in (".", ".."):
        name = name.replace(".", "%2E")  # the rest of a long segment may be what the file system keeps for itself
    yield name or "%"


def _unescaped(name: str) -> bytes:
    if "%" not in name:
        return name.encode()
    first, *rest = name.encode().split(b"%")
    return first + b"".join(bytes.fromhex(piece[:2].decode()) + piece[2:] for piece in rest if piece)
