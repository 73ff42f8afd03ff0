"""Removes files of stream tables from this server's disk, and logs what was removed."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final

from lakebed.storage.files import remove_tree

__all__ = ["removal_fields", "remove_logged"]

_FIRST_FILES: Final = 5


def remove_logged(path: str, log: logging.Logger, event: str) -> None:
    """Remove a folder with all in it. Logs `event` with count, bytes and the first files, if there were any. Blocks."""
    found = [file for folder, _, names in os.walk(path) for name in names if (file := _sized(folder, name))]
    remove_tree(path)
    if found:
        log.info(event, extra=removal_fields(found))


def removal_fields(files: Sequence[tuple[str, int]]) -> dict[str, object]:
    """What the log says of files that were removed, given with their sizes."""
    return {
        "count": len(files),
        "bytes": sum(size for _, size in files),
        "first_files": [path for path, _ in files[:_FIRST_FILES]],
    }


def _sized(folder: str, name: str) -> tuple[str, int] | None:
    path = os.path.join(folder, name)
    try:
        return path, os.stat(path, follow_symlinks=False).st_size
    except FileNotFoundError:
        return None
