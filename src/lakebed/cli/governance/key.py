"""`lakebed key`: access keys of users. A secret is printed once, when it is created."""

from __future__ import annotations

import argparse

from lakebed.core.sizes import parse_seconds
from lakebed.governance import AccessKey, NewAccessKey

from ..output import print_facts, print_rows
from .administration import Administration, add_task, moment, run_task

run = run_task


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    create = add_task(tasks, "create", "create a key for a user and print its secret", _create)
    create.add_argument("user")
    create.add_argument("--expires", metavar="DURATION", help="lifetime, such as 90d (default: unlimited)")
    add_task(tasks, "list", "list a user's keys", _list).add_argument("user")
    add_task(tasks, "rotate", "replace the secret of a key", _rotate).add_argument("key")
    add_task(tasks, "disable", "disable a key and its sessions", _disable).add_argument("key")
    add_task(tasks, "enable", "enable a key again", _enable).add_argument("key")
    add_task(tasks, "delete", "delete a key and end its sessions", _delete).add_argument("key")


async def _create(admin: Administration, arguments: argparse.Namespace) -> None:
    expires_ms = None
    if arguments.expires is not None:
        expires_ms = admin.clock.now_ms() + round(parse_seconds(arguments.expires) * 1000)
    _print_new(await admin.keys.create(arguments.user, expires_ms=expires_ms), arguments)


async def _list(admin: Administration, arguments: argparse.Namespace) -> None:
    await admin.principals.user(arguments.user)
    rows = [
        (key.id, _state(key, admin.clock.now_ms()), moment(key.created_ms), moment(key.rotated_ms), _expiry(key))
        for key in await admin.keys.of_user(arguments.user)
    ]
    print_rows(("access_key", "state", "created", "rotated", "expires"), rows, as_json=arguments.json)


async def _rotate(admin: Administration, arguments: argparse.Namespace) -> None:
    _print_new(await admin.keys.rotate(arguments.key), arguments)


async def _disable(admin: Administration, arguments: argparse.Namespace) -> None:
    key = await admin.keys.set_enabled(arguments.key, enabled=False)
    print_facts({"access_key": key.id, "state": "disabled"}, as_json=arguments.json)


async def _enable(admin: Administration, arguments: argparse.Namespace) -> None:
    key = await admin.keys.set_enabled(arguments.key, enabled=True)
    print_facts({"access_key": key.id, "state": "enabled"}, as_json=arguments.json)


async def _delete(admin: Administration, arguments: argparse.Namespace) -> None:
    await admin.keys.delete(arguments.key)
    print_facts({"access_key": arguments.key, "state": "deleted"}, as_json=arguments.json)


def _print_new(made: NewAccessKey, arguments: argparse.Namespace) -> None:
    print_facts(
        {
            "user": made.key.user,
            "access_key": made.key.id,
            "secret_key": made.secret.reveal(),
            "expires": _expiry(made.key),
        },
        as_json=arguments.json,
    )


def _state(key: AccessKey, now_ms: int) -> str:
    if key.expires_ms is not None and key.expires_ms <= now_ms:
        return "expired"
    return "enabled" if key.enabled else "disabled"


def _expiry(key: AccessKey) -> str:
    return "never" if key.expires_ms is None else moment(key.expires_ms)
