"""Shared by `user`, `key`, `policy` and `token-key`: opens the metadata store for one command.

These commands access the metadata store directly, so that they work while the server is stopped; a running server sees
their changes with its next request. Access to the secrets in the data folder is equivalent to root's permissions.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from lakebed.core.clock import Clock, SystemClock
from lakebed.governance import AccessKeys, MasterKeys, Principals
from lakebed.governance.tokens import TokenSigningKeys
from lakebed.meta.outbox import Outbox
from lakebed.server.stores.identity import require_identity, root_credential
from lakebed.server.stores.metadata import open_metadata

from ..settings_flags import add_settings_flags, read_settings


@dataclass(frozen=True, slots=True)
class Administration:
    """The services that administration needs."""

    principals: Principals
    keys: AccessKeys
    token_keys: TokenSigningKeys
    clock: Clock


Task = Callable[[Administration, argparse.Namespace], Awaitable[None]]


def add_task(
    tasks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, task: Task
) -> argparse.ArgumentParser:
    """Add a subcommand of `user`, `key` or `policy`."""
    parser = tasks.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    add_settings_flags(parser, serving=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(task=task)
    return parser


def run_task(arguments: argparse.Namespace) -> int:
    """Run a task with an open store."""
    asyncio.run(_run(arguments.task, arguments))
    return 0


def moment(ms: int) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


async def _run(task: Task, arguments: argparse.Namespace) -> None:
    settings = read_settings(arguments).settings
    identity = require_identity(settings)
    root = root_credential(identity)
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    store = await open_metadata(settings, master)
    try:
        outbox = Outbox(store)
        keys = AccessKeys(store, outbox, master, clock, root)
        token_keys = TokenSigningKeys(store, outbox, master, clock, root.principal)
        principals = Principals(store, outbox, clock, root.principal)
        await task(Administration(principals, keys, token_keys, clock), arguments)
    finally:
        await asyncio.shield(store.close())
