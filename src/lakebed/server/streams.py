"""Wires streams: stores → tables and buckets → the calls of clients."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.core.access import Authorizer
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.settings import Settings
from lakebed.governance.access_keys import AccessKeys
from lakebed.governance.tokens import Attempts, Clients, SecretHashes
from lakebed.governance.vault import MasterKeys
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.streams.buckets import Buckets
from lakebed.streams.configs import ClusterConfigs
from lakebed.streams.counters import Counters, WriterIds
from lakebed.streams.databases import Databases
from lakebed.streams.gate import Gate
from lakebed.streams.home import Home
from lakebed.streams.keys.cursors import Cursors
from lakebed.streams.partitions import Partitions
from lakebed.streams.tables import Tables
from lakebed.wire.fluss.calls import AnyCall
from lakebed.wire.fluss.handlers.databases import database_calls
from lakebed.wire.fluss.handlers.keys import KeyCalls
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.handlers.metadata import metadata_calls
from lakebed.wire.fluss.handlers.tables import partition_calls, table_calls

from .decisions import wire_decisions
from .identity import Identity, root_credential
from .metadata import open_metadata
from .stream_administration import wire_administration
from .stream_buckets import StoredBuckets
from .stream_callers import StreamCallers

STREAMS_FOLDER: Final = "streams"
_NAME_FILE: Final = "server-name"


@dataclass(frozen=True, slots=True)
class Streams:
    """What serves streams, for its process to run."""

    home: Home
    buckets: Buckets
    calls: tuple[AnyCall, ...]
    callers: StreamCallers
    chores: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """What the home does by itself: each until it is cancelled."""


@asynccontextmanager
async def compose(settings: Settings, identity: Identity, *, port: int) -> AsyncIterator[Streams]:
    """Open the stores and wire streams on them; closed at the end."""
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    try:
        folder = settings.server.data / STREAMS_FOLDER
        server = await asyncio.to_thread(_server_name, folder)
        decisions = wire_decisions(settings.decisions, clock)
        try:
            yield _wire(settings, identity, master, clock, meta, folder, decisions.authorizer, server, port)
        finally:
            decisions.close()
    finally:
        await meta.close()


def _server_name(folder: Path) -> str:
    """A name that this data folder's server has and no other: it stays the same when the server starts again."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / _NAME_FILE
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(secrets.token_hex(8), encoding="ascii")
        fresh.replace(path)
    return path.read_text(encoding="ascii").strip()


def _wire(
    settings: Settings,
    identity: Identity,
    master: MasterKeys,
    clock: Clock,
    meta: MetaStore,
    folder: Path,
    authorizer: Authorizer,
    server: str,
    port: int,
) -> Streams:
    root = root_credential(identity)
    outbox = Outbox(meta)
    gate = Gate(authorizer, root.principal.account)
    configs = ClusterConfigs(meta, outbox, clock, gate, _initial_configs(settings))
    counters = Counters(meta)
    tables = Tables(meta, outbox, clock, gate, configs)
    partitions = Partitions(meta, outbox, clock, gate, tables, configs)
    databases = Databases(meta, outbox, clock, gate, tables)
    home = Home(
        meta,
        Leases(meta, clock),
        server=server,
        advertised=settings.streams.advertise,
        port=port,
        ttl_seconds=settings.streams.lease,
    )

    def is_home() -> bool:
        return home.is_here

    buckets = Buckets(StoredBuckets(folder, clock, tables, counters, is_home), tables, partitions, is_home)

    async def begin(lease: Lease) -> None:
        # Another may have been the home since: nothing that is remembered is known to be true.
        tables.forget_all()
        partitions.forget_all()

    cursors = Cursors(clock)
    buckets.when_closed(cursors.close_bucket)
    home.when_begun(begin)
    home.when_ended(buckets.close)
    access_keys = AccessKeys(meta, outbox, master, clock, root)
    clients = Clients(meta, access_keys, SecretHashes(), Attempts(clock), master)
    administration = wire_administration(
        meta, outbox, clock, gate, root.principal, databases, tables, partitions, buckets, configs, home
    )
    calls = (
        *administration.calls,
        *database_calls(databases),
        *table_calls(tables),
        *partition_calls(partitions),
        *metadata_calls(tables, partitions, home),
        *LogCalls(tables, partitions, buckets, gate, WriterIds(counters), clock).calls(),
        *KeyCalls(tables, buckets, gate, cursors).calls(),
    )
    return Streams(home, buckets, calls, StreamCallers(meta, clients, access_keys, master), administration.chores)


def _initial_configs(settings: Settings) -> dict[str, str]:
    """What streams were started with, as their clients call it."""
    streams = settings.streams
    return {
        "bind.listeners": f"FLUSS://{streams.listen}",
        "advertised.listeners": "" if streams.advertise is None else f"FLUSS://{streams.advertise}",
        "security.protocol.map": "FLUSS:sasl",
        "security.sasl.enabled.mechanisms": "PLAIN",
        "authorizer.enabled": "true",
    }
