"""The part of the tree that is about who decides elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from ..secrets import Secret
from .kinds import SECONDS, Within


class DecisionMode(StrEnum):
    """What the answers of a decision point mean beside those of the server."""

    AND = "and"
    """Policies and grants decide as ever, and what they allow it has to allow as well."""

    INSTEAD = "instead"
    """It allows in place of identity policies, bucket policies and grants. What denies still denies."""


@dataclass(frozen=True, slots=True)
class DecisionsSettings:
    """A decision point, such as Open Policy Agent, that is asked before every operation."""

    url: str | None = None
    """Where questions are posted to, such as `http://127.0.0.1:8181/v1/data/lakebed/allow`. Not set: nobody is asked.
    Without an answer nothing is allowed."""

    batch_url: str | None = None
    """Where is asked what lists show, for many names at once, such as `http://127.0.0.1:8181/v1/data/lakebed/visible`.
    Not set: who may see a list sees all of it."""

    mode: DecisionMode = DecisionMode.AND
    token: Secret | None = None
    """Shown as a bearer token with each question."""

    timeout: Annotated[float, SECONDS, Within(0.01, 60)] = 2.0
    """How long an answer is waited for."""

    remember: Annotated[float, SECONDS, Within(0, 300)] = 2.0
    """How long an answer is good for the same question. 0: every question is asked."""

    ca_bundle: Path | None = None
    """Certificates of the authorities that vouch for the decision point, in place of the system's."""

    allow_http: bool = False
    """Ask by plain HTTP, beyond this machine too."""
