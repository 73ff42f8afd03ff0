"""Settings of the external policy decision point."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from ..secrets import Secret
from .kinds import SECONDS, Within


class DecisionMode(StrEnum):
    """How decisions of the decision point combine with those of the server."""

    AND = "and"
    """Both the server's policies and grants and the decision point must allow."""

    INSTEAD = "instead"
    """The decision point replaces identity policies, bucket policies and grants. Explicit denials still apply."""


@dataclass(frozen=True, slots=True)
class DecisionsSettings:
    """A policy decision point, such as Open Policy Agent, that authorizes every operation."""

    url: str | None = None
    """URL of decision requests, such as `http://127.0.0.1:8181/v1/data/lakebed/allow`. Not set: no decision point.
    While it is unavailable, nothing is allowed."""

    batch_url: str | None = None
    """URL that filters lists, many names per request, such as `http://127.0.0.1:8181/v1/data/lakebed/visible`.
    Not set: lists are not filtered."""

    mode: DecisionMode = DecisionMode.AND
    token: Secret | None = None
    """Bearer token of decision requests."""

    timeout: Annotated[float, SECONDS, Within(0.01, 60)] = 2.0
    """Response timeout."""

    cache_ttl: Annotated[float, SECONDS, Within(0, 300)] = 2.0
    """How long a decision is cached. 0: no cache."""

    ca_bundle: Path | None = None
    """CA certificates for the decision point, in place of the system's."""

    allow_http: bool = False
    """Allow plain HTTP to other machines."""
