"""The part of the tree that is about selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..sizes import MIB
from .kinds import BYTES, SECONDS, Within


@dataclass(frozen=True, slots=True)
class SelectSettings:
    """SQL over objects. The limits are those of each worker process."""

    concurrent: Annotated[int, Within(1)] = 4
    """Selects that run at a time; who asks for one more is told to slow down."""

    memory: Annotated[int, BYTES, Within(16 * MIB)] = 128 * MIB
    """Of one select. What sorting and grouping hold beyond it goes to the data folder, but of encrypted objects, for
    which the select ends."""

    timeout: Annotated[float, SECONDS, Within(1, 86_400)] = 300.0
    """How long one may run."""

    threads: Annotated[int, Within(0)] = 0
    """Of one select; 0 for one a processor."""
