"""The part of the tree that is about other catalogs: behind this one, and followed by bridges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .kinds import SECONDS, Within


@dataclass(frozen=True, slots=True)
class FederationSettings:
    """Other Iceberg REST catalogs that this server speaks to."""

    hosts: tuple[str, ...] = ()
    """Hosts that connections and bridges may lead to: `catalog.example`, `catalog.example:8181`, `*.example`, or `*`.
    Empty: none."""

    timeout: Annotated[float, SECONDS, Within(0.1, 600)] = 30.0
    """How long another catalog may take to answer."""

    ca_bundle: Path | None = None
    """Certificates of the authorities that vouch for other catalogs, in place of the system's."""
