"""The part of the tree that is about other catalogs behind this one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .kinds import SECONDS, Within


@dataclass(frozen=True, slots=True)
class FederationSettings:
    """Catalogs that are backed by another Iceberg REST catalog."""

    hosts: tuple[str, ...] = ()
    """Hosts that connections may lead to: `catalog.example`, `catalog.example:8181`, `*.example`, or `*`. Empty: none.
    Bridges, which take a right of their own, lead anywhere while this is empty, and to these hosts else."""

    timeout: Annotated[float, SECONDS, Within(0.1, 600)] = 30.0
    """How long another catalog may take to answer."""

    ca_bundle: Path | None = None
    """Certificates of the authorities that vouch for other catalogs, in place of the system's."""
