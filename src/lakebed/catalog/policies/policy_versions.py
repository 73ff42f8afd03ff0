"""Versions of policies: each is stored until the policy is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakebed.core.errors import NoSuchPolicy
from lakebed.governance.policies import Policy, PolicyVersion, rows
from lakebed.meta.seam import Reader
from lakebed.objects.model import Caller

from ..model import Page
from .policies import PolicyManagement

__all__ = ["PolicyVersions"]

LATEST: Final = (1 << 63) - 1
"""Above every version: the versions before it are all."""


class PolicyVersions:
    """Reads versions."""

    def __init__(self, reader: Reader, policies: PolicyManagement) -> None:
        self._reader = reader
        self._policies = policies

    async def list(
        self,
        caller: Caller,
        catalog_name: str,
        levels: Sequence[str],
        name: str,
        *,
        before: int = LATEST,
        limit: int = 100,
    ) -> Page[PolicyVersion]:
        """The versions of a policy below one, the latest first. Raises NoSuchPolicy."""
        policy = await self._policies.get(caller, catalog_name, levels, name)
        found = await self._reader.rows(rows.VERSIONS_BEFORE, policy.id, before, limit + 1)
        return Page.of([rows.version_from(row) for row in found], limit)

    async def get(
        self, caller: Caller, catalog_name: str, levels: Sequence[str], name: str, version: int
    ) -> tuple[Policy, PolicyVersion]:
        """A policy at a version, with its author. Raises NoSuchPolicy, also if the version does not exist."""
        policy = await self._policies.get(caller, catalog_name, levels, name)
        row = await self._reader.row(rows.VERSION, policy.id, version)
        if row is None:
            raise NoSuchPolicy(f"policy has no such version, or it was not stored. policy={policy} version={version}")
        found = rows.version_from(row)
        as_it_was = replace(
            policy,
            description=found.description,
            content=found.content,
            version=found.version,
            updated_ms=found.created_ms,
        )
        return as_it_was, found
