"""Settings of S3 Select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..sizes import MIB
from .kinds import BYTES, SECONDS, Within


@dataclass(frozen=True, slots=True)
class SelectSettings:
    """Limits of S3 Select, per worker process."""

    concurrent: Annotated[int, Within(1)] = 4
    """Maximum number of concurrent queries; further ones get SlowDown."""

    memory: Annotated[int, BYTES, Within(16 * MIB)] = 128 * MIB
    """Memory limit of one query. Sorts and groups beyond it spill to the data folder, except over encrypted objects,
    where the query fails."""

    timeout: Annotated[float, SECONDS, Within(1, 86_400)] = 300.0
    """Time limit of one query."""

    threads: Annotated[int, Within(0)] = 0
    """Threads of one query; 0 means one per processor."""
