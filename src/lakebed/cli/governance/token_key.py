"""`lakebed token-key`: the signing keys of tokens. The server rotates them automatically."""

from __future__ import annotations

import argparse

from ..output import print_facts, print_rows
from .administration import Administration, add_task, moment, run_task

run = run_task


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    add_task(tasks, "list", "list the keys that verify tokens", _list)
    add_task(tasks, "rotate", "sign with a new key; issued tokens stay valid", _rotate)
    add_task(tasks, "revoke", "delete a key and invalidate all tokens that it signed", _revoke).add_argument("key")


async def _list(admin: Administration, arguments: argparse.Namespace) -> None:
    rows = [
        (
            key.id,
            key.algorithm,
            "signs" if key.signs else "verifies",
            moment(key.created_ms),
            "" if key.expires_ms is None else moment(key.expires_ms),
        )
        for key in await admin.token_keys.keys()
    ]
    print_rows(("key", "algorithm", "state", "created", "until"), rows, as_json=arguments.json)


async def _rotate(admin: Administration, arguments: argparse.Namespace) -> None:
    key = await admin.token_keys.rotate()
    print_facts({"key": key.id, "state": "signs"}, as_json=arguments.json)


async def _revoke(admin: Administration, arguments: argparse.Namespace) -> None:
    await admin.token_keys.revoke(arguments.key)
    print_facts({"key": arguments.key, "state": "revoked"}, as_json=arguments.json)
