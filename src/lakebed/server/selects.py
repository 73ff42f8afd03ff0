"""Composition of S3 Select: limits from the settings, and the spill folder."""

from __future__ import annotations

import shutil
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Final

from lakebed.core.settings import Settings
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import Lister
from lakebed.objects.reading import ObjectReader
from lakebed.select.model import SelectLimits
from lakebed.select.service import SelectService

SPILL_FOLDER: Final = "spill"


def wire_selects(settings: Settings, object_context: ObjectContext) -> SelectService:
    """The select service on an object store."""
    limits = settings.select
    folder = _spill_folder(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SelectService(
        ObjectReader(object_context),
        Lister(object_context),
        object_context.clock,
        SelectLimits(
            concurrent=limits.concurrent,
            memory_bytes=limits.memory,
            seconds=limits.timeout,
            partitions=limits.threads,
        ),
        folder,
    )


_BLOCKED_MODULES: Final = ("numpy", "pandas")


def block_numpy() -> None:
    """Block the import of numpy and pandas in this process.

    PyArrow imports them if they are installed, for conversions that the server does not use. They take 10 and 40 MiB.
    """
    if not any(isinstance(finder, _ImportBlocker) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportBlocker())


class _ImportBlocker(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in _BLOCKED_MODULES:
            raise ModuleNotFoundError(f"{fullname} is blocked in server processes", name=fullname)


def clear_spill(settings: Settings) -> None:
    """Remove spill files of an earlier server that crashed. Runs before any worker process."""
    shutil.rmtree(_spill_folder(settings), ignore_errors=True)


def _spill_folder(settings: Settings) -> Path:
    return settings.server.data / SPILL_FOLDER
