"""Selects, as the settings bound them; and the folder for what does not fit into their memory."""

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
    """Selects on an object store."""
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


_LEFT_OUT: Final = ("numpy", "pandas")


def leave_out_arrays() -> None:
    """Keep numpy and pandas out of this process, from now on.

    Arrow loads them where they are installed, in case that values are of their kinds. None are here, and they take
    10 and 40 MiB.
    """
    if not any(isinstance(finder, _NoArrays) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoArrays())


class _NoArrays(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in _LEFT_OUT:
            raise ModuleNotFoundError(f"{fullname} is not for servers", name=fullname)


def clear_spill(settings: Settings) -> None:
    """Remove what selects of a server that did not end in order have left. Before any worker runs."""
    shutil.rmtree(_spill_folder(settings), ignore_errors=True)


def _spill_folder(settings: Settings) -> Path:
    return settings.server.data / SPILL_FOLDER
