"""Servers of streams: what they are tagged with, and how buckets are shared among them.

One server at a time is the home of all buckets (ADR 29). So there is nothing to move while it may be that, and nowhere
to move it to when it may not: a plan is either empty and carried out, or refused.
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
    """What a server is tagged with, by the protocol's number."""

    PERMANENT_OFFLINE = 0
    TEMPORARY_OFFLINE = 1


class RebalanceGoal(IntEnum):
    """What a plan is to reach, by the protocol's number."""

    REPLICA_DISTRIBUTION = 0
    LEADER_DISTRIBUTION = 1
    RACK_AWARE = 2


class RebalanceStatus(IntEnum):
    """How far a plan is, by the protocol's number."""

    NOT_STARTED = 0
    REBALANCING = 1
    FAILED = 2
    COMPLETED = 3
    CANCELED = 4
    TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A plan that was asked for."""

    id: str
    status: RebalanceStatus
    created_ms: int


class ClusterAdmin:
    """The use cases of tags and plans."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        live: Callable[[], Awaitable[Sequence[int]]],
    ) -> None:
        """`live` are the ids of the servers that there are, as metadata names them."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._live = live

    async def tag(self, caller: Caller, servers: Sequence[int], tag: int) -> None:
        """Tag servers, all or none. Error codes: NO_SERVER, SERVER_TAG_ALREADY_EXIST, INVALID_CONFIG."""
        await self._authorizer.authorize(caller, StreamOperation.ALTER)
        meant = _tag(tag)
        await self._check_live(servers)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for server in sorted(set(servers)):
                if await tx.row(_TAG, server) is not None:
                    raise FlussError(ErrorCode.SERVER_TAG_ALREADY_EXIST, f"the server has a tag. server={server}")
                await tx.run(_SET_TAG, server, meant, now_ms)
            await self._tell(tx, caller, "StreamServerTagged", servers, meant, now_ms)

        await self._meta.transact(work)

    async def untag(self, caller: Caller, servers: Sequence[int], tag: int) -> None:
        """Take a tag from servers, from all or none. Error codes: NO_SERVER, SERVER_TAG_NOT_EXIST, INVALID_CONFIG."""
        await self._authorizer.authorize(caller, StreamOperation.ALTER)
        meant = _tag(tag)
        await self._check_live(servers)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for server in sorted(set(servers)):
                row = await tx.row(_TAG, server)
                if row is None or row[0] != meant:
                    raise FlussError(
                        ErrorCode.SERVER_TAG_NOT_EXIST, f"the server has no such tag. server={server} tag={meant.name}"
                    )
                await tx.run(_UNSET_TAG, server)
            await self._tell(tx, caller, "StreamServerUntagged", servers, meant, now_ms)

        await self._meta.transact(work)

    async def rebalance(self, caller: Caller, goals: Sequence[int]) -> str:
        """Share buckets among the servers that may have them; the plan's id. Error codes: REBALANCE_FAILURE."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)
        try:
            wanted = [RebalanceGoal(goal) for goal in goals]
        except ValueError:
            wanted = []
        if not wanted:
            raise FlussError(ErrorCode.REBALANCE_FAILURE, f"no goals that a plan can reach. goals={list(goals)}")
        live = set(await self._live())
        away = {int(server) for server, _ in await self._meta.rows(_TAGS)}
        if not live - away:
            raise FlussError(
                ErrorCode.REBALANCE_FAILURE, "every server is to be offline: there is none to have buckets"
            )
        name, now_ms = uuid4().hex, self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(_INSERT, name, RebalanceStatus.COMPLETED, _encode([int(goal) for goal in wanted]), now_ms)
            await tx.run(_FORGET, name)

        await self._meta.transact(work)
        return name

    async def progress(self, caller: Caller, name: str | None = None) -> Rebalance | None:
        """The latest plan; None if there never was one.

        Error codes: NO_REBALANCE_IN_PROGRESS for the id of another one.
        """
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        row = await self._meta.row(_LATEST)
        return None if row is None and name is None else _found(row, name)

    async def cancel(self, caller: Caller, name: str | None = None) -> None:
        """End a plan before it is carried out. Error codes: NO_REBALANCE_IN_PROGRESS, also for one that was."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)
        found = _found(await self._meta.row(_LATEST), name)
        raise FlussError(ErrorCode.NO_REBALANCE_IN_PROGRESS, f"the plan was carried out. rebalance_id={found.id}")

    async def _check_live(self, servers: Sequence[int]) -> None:
        if missing := sorted(set(servers) - set(await self._live())):
            raise FlussError(ErrorCode.SERVER_NOT_EXIST, f"no such servers. servers={missing}")

    async def _tell(
        self, tx: Transaction, caller: Caller, kind: str, servers: Sequence[int], tag: ServerTag, now_ms: int
    ) -> None:
        facts = {"servers": ",".join(map(str, sorted(set(servers)))), "tag": tag.name}
        await append_event(self._outbox, tx, kind, caller, now_ms, "", facts=facts)


def _tag(number: int) -> ServerTag:
    try:
        return ServerTag(number)
    except ValueError:
        raise FlussError(ErrorCode.INVALID_CONFIG, f"no such tag of a server. tag={number}") from None


def _found(row: Row | None, name: str | None) -> Rebalance:
    if row is None or name not in (None, row[0]):
        raise FlussError(ErrorCode.NO_REBALANCE_IN_PROGRESS, f"no such plan. rebalance_id={name}")
    return Rebalance(row[0], RebalanceStatus(row[1]), row[2])
