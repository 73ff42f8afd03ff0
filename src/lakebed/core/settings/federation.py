"""Settings of external catalogs: federation and bridges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .kinds import SECONDS, Within


@dataclass(frozen=True, slots=True)
class FederationSettings:
    """External Iceberg REST catalogs."""

    hosts: tuple[str, ...] = ()
    """Allowed hosts of connections and bridges: `catalog.example`, `catalog.example:8181`, `*.example`, or `*`.
    Empty: none, and no catalog can be federated."""

    timeout: Annotated[float, SECONDS, Within(0.1, 600)] = 30.0
    """Timeout of a request to the external catalog of a federated catalog."""

    ca_bundle: Path | None = None
    """Certificate authorities that replace those of the system for external catalogs."""
