"""Times listing many tables for a caller that sees all of them and one that has grants on half."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from benchmarks.governance.site import make_namespaces, opened
from benchmarks.governance.timing import Timed, timed
from benchmarks.pipeline import planning
from benchmarks.pipeline.planning import LAKE, TABLES_A_NAMESPACE
from lakebed.catalog.model import EntryKind
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.objects.model import Caller
from lakebed.server.processes.memory import settle_memory
from lakebed.wire.json.responses import identifiers, ok

GOAL_RATIO: Final = 1.5
NAMESPACE: Final = "ns0"
PAGE: Final = 1_000


def measure(folder: Path, tables: int, *, rounds: int, seconds: float) -> list[Timed]:
    """Measure the whole list and a page, for each caller."""
    return asyncio.run(_measure(folder, tables, rounds, seconds))


async def _measure(folder: Path, tables: int, rounds: int, seconds: float) -> list[Timed]:
    async with opened(folder) as site:
        await make_namespaces(site, NAMESPACE)
        for first in range(0, tables, TABLES_A_NAMESPACE):
            await planning.publish(site.catalog, NAMESPACE, range(first, min(tables, first + TABLES_A_NAMESPACE)))
        whole = GrantTarget(GrantKind.NAMESPACE, (NAMESPACE,)), Privilege.TABLE_LIST
        callers = {
            "all": (await site.caller(await site.holder("of-all", whole)), tables),
            "half": (
                await site.caller(await site.holder("of-half", *_grants_on(range(0, tables, 2)))),
                (tables + 1) // 2,
            ),
        }
        settle_memory()  # as a worker does at start
        times = []
        for limit, title in ((tables, "whole list"), (PAGE, f"page of {PAGE:,}")):
            for share, (caller, visible) in callers.items():

                async def list_tables(
                    caller: Caller = caller, expected: int = min(visible, limit), limit: int = limit
                ) -> None:
                    page = await site.catalog.entries.list(
                        caller, LAKE, [NAMESPACE], EntryKind.TABLE, after="", limit=limit
                    )
                    assert len(page.names) == expected
                    ok({"identifiers": identifiers(page.namespace, page.names)})

                times.append(await timed(f"{title}, {share} visible", list_tables, rounds=rounds, seconds=seconds))
        return times


def _grants_on(numbers: range) -> list[tuple[GrantTarget, Privilege]]:
    return [(GrantTarget(GrantKind.TABLE, (NAMESPACE,), f"t{number}"), Privilege.TABLE_LIST) for number in numbers]


def ratios(times: list[Timed]) -> list[tuple[Timed, Timed, float]]:
    """Pair each list for half of the tables with the same list for all."""
    pairs = zip(times[::2], times[1::2], strict=True)
    return [(of_all, of_half, of_half.p50_seconds / of_all.p50_seconds) for of_all, of_half in pairs]
