"""Server tags and rebalancing.

One server at a time leads all buckets (ADR 29). So a rebalance has nothing to move while that server may lead, and
nowhere to move it otherwise: a plan is either empty and completed, or rejected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import uuid4

import msgspec

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Row, Transaction
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..events import append_event

__all__ = ["ClusterAdmin", "Rebalance", "RebalanceGoal", "RebalanceStatus", "ServerTag"]

_TAG: Final = "SELECT tag FROM stream_server_tags WHERE server = ?"
_TAGS: Final = "SELECT server, tag FROM stream_server_tags"
_SET_TAG: Final = "INSERT INTO stream_server_tags (server, tag, set_ms) VALUES (?, ?, ?)"
_UNSET_TAG: Final = "DELETE FROM stream_server_tags WHERE server = ?"
_INSERT: Final = "INSERT INTO stream_rebalances (name, status, goals, created_ms) VALUES (?, ?, ?, ?)"
_FORGET: Final = "DELETE FROM stream_rebalances WHERE name <> ?"
_LATEST: Final = "SELECT name, status, created_ms FROM stream_rebalances ORDER BY id DESC LIMIT 1"

_encode = msgspec.msgpack.Encoder().encode


class ServerTag(IntEnum):
    """A tag of a server, by the protocol's number."""

    PERMANENT_OFFLINE = 0
    TEMPORARY_OFFLINE = 1


class RebalanceGoal(IntEnum):
    """A goal of a rebalance, by the protocol's number."""

    REPLICA_DISTRIBUTION = 0
    LEADER_DISTRIBUTION = 1
    RACK_AWARE = 2


class RebalanceStatus(IntEnum):
    """The status of a rebalance, by the protocol's number."""

    NOT_STARTED = 0
    REBALANCING = 1
    FAILED = 2
    COMPLETED = 3
    CANCELED = 4
    TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A requested rebalance."""

    id: str
    status: RebalanceStatus
    created_ms: int


class ClusterAdmin:
    """Tags servers and rebalances buckets."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        live: Callable[[], Awaitable[Sequence[int]]],
    ) -> None:
        """`live` returns the ids of the servers in the cluster metadata."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._live = live

    async def tag(self, caller: Caller, servers: Sequence[int], tag: int) -> None:
        """Tag servers, all or none. Error codes: SERVER_NOT_EXIST, SERVER_TAG_ALREADY_EXIST, INVALID_CONFIG."""
        await self._authorizer.authorize(caller, StreamOperation.ALTER)
        server_tag = _tag(tag)
        await self._check_live(servers)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for server in sorted(set(servers)):
                if await tx.row(_TAG, server) is not None:
                    raise FlussError(ErrorCode.SERVER_TAG_ALREADY_EXIST, f"the server has a tag. server={server}")
                await tx.run(_SET_TAG, server, server_tag, now_ms)
            await self._append_event(tx, caller, "StreamServerTagged", servers, server_tag, now_ms)

        await self._meta.transact(work)

    async def untag(self, caller: Caller, servers: Sequence[int], tag: int) -> None:
        """Remove a tag from servers, all or none.

        Error codes: SERVER_NOT_EXIST, SERVER_TAG_NOT_EXIST, INVALID_CONFIG.
        """
        await self._authorizer.authorize(caller, StreamOperation.ALTER)
        server_tag = _tag(tag)
        await self._check_live(servers)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for server in sorted(set(servers)):
                row = await tx.row(_TAG, server)
                if row is None or row[0] != server_tag:
                    raise FlussError(
                        ErrorCode.SERVER_TAG_NOT_EXIST,
                        f"no such tag. server={server} tag={server_tag.name}",
                    )
                await tx.run(_UNSET_TAG, server)
            await self._append_event(tx, caller, "StreamServerUntagged", servers, server_tag, now_ms)

        await self._meta.transact(work)

    async def rebalance(self, caller: Caller, goals: Sequence[int]) -> str:
        """Rebalance buckets over the servers without a tag; the plan's id. Error codes: REBALANCE_FAILURE."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)
        try:
            requested = [RebalanceGoal(goal) for goal in goals]
        except ValueError:
            requested = []
        if not requested:
            raise FlussError(ErrorCode.REBALANCE_FAILURE, f"expected rebalance goals. goals={list(goals)}")
        live = set(await self._live())
        tagged = {int(server) for server, _ in await self._meta.rows(_TAGS)}
        if not live - tagged:
            raise FlussError(ErrorCode.REBALANCE_FAILURE, "every server is tagged as offline: none is left for buckets")
        name, now_ms = uuid4().hex, self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(_INSERT, name, RebalanceStatus.COMPLETED, _encode([int(goal) for goal in requested]), now_ms)
            await tx.run(_FORGET, name)

        await self._meta.transact(work)
        return name

    async def progress(self, caller: Caller, name: str | None = None) -> Rebalance | None:
        """The latest rebalance; None if there was none.

        Error codes: NO_REBALANCE_IN_PROGRESS for the id of another one.
        """
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        row = await self._meta.row(_LATEST)
        return None if row is None and name is None else _found(row, name)

    async def cancel(self, caller: Caller, name: str | None = None) -> None:
        """Cancel a rebalance. Error codes: NO_REBALANCE_IN_PROGRESS, also for a completed one."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)
        found = _found(await self._meta.row(_LATEST), name)
        raise FlussError(ErrorCode.NO_REBALANCE_IN_PROGRESS, f"the rebalance is completed. rebalance_id={found.id}")

    async def _check_live(self, servers: Sequence[int]) -> None:
        if missing := sorted(set(servers) - set(await self._live())):
            raise FlussError(ErrorCode.SERVER_NOT_EXIST, f"no such servers. servers={missing}")

    async def _append_event(
        self, tx: Transaction, caller: Caller, kind: str, servers: Sequence[int], tag: ServerTag, now_ms: int
    ) -> None:
        facts = {"servers": ",".join(map(str, sorted(set(servers)))), "tag": tag.name}
        await append_event(self._outbox, tx, kind, caller, now_ms, "", facts=facts)


def _tag(number: int) -> ServerTag:
    try:
        return ServerTag(number)
    except ValueError:
        raise FlussError(ErrorCode.INVALID_CONFIG, f"unknown server tag. tag={number}") from None


def _found(row: Row | None, name: str | None) -> Rebalance:
    if row is None or name not in (None, row[0]):
        raise FlussError(ErrorCode.NO_REBALANCE_IN_PROGRESS, f"no such rebalance. rebalance_id={name}")
    return Rebalance(row[0], RebalanceStatus(row[1]), row[2])
