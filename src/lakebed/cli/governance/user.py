"""`lakebed user`: users with access keys."""

from __future__ import annotations

import argparse

from ..output import print_facts, print_rows
from .administration import Administration, add_task, moment, run_task

run = run_task


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    create = add_task(tasks, "create", "create a user", _create)
    create.add_argument("name")
    create.add_argument(
        "--policy", metavar="NAME", action="append", default=[], help="attach a canned policy, such as readwrite"
    )
    create.add_argument("--account", metavar="ID", help="12 digits (default: root's account)")
    add_task(tasks, "list", "list users", _list)
    add_task(tasks, "disable", "disable a user, its keys and its sessions", _disable).add_argument("name")
    add_task(tasks, "enable", "enable a user again", _enable).add_argument("name")
    add_task(tasks, "delete", "delete a user with its keys and policies", _delete).add_argument("name")


async def _create(admin: Administration, arguments: argparse.Namespace) -> None:
    user = await admin.principals.create_user(arguments.name, account=arguments.account, canned=arguments.policy)
    print_facts({"user": user.name, "arn": user.arn}, as_json=arguments.json)


async def _list(admin: Administration, arguments: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = []
    page = await admin.principals.users()
    while page:
        rows += [
            (user.name, user.account, "enabled" if user.enabled else "disabled", moment(user.created_ms))
            for user in page
        ]
        page = await admin.principals.users(after=page[-1].name)
    print_rows(("name", "account", "state", "created"), rows, as_json=arguments.json)


async def _disable(admin: Administration, arguments: argparse.Namespace) -> None:
    user = await admin.principals.set_user_enabled(arguments.name, enabled=False)
    print_facts({"user": user.name, "state": "disabled"}, as_json=arguments.json)


async def _enable(admin: Administration, arguments: argparse.Namespace) -> None:
    user = await admin.principals.set_user_enabled(arguments.name, enabled=True)
    print_facts({"user": user.name, "state": "enabled"}, as_json=arguments.json)


async def _delete(admin: Administration, arguments: argparse.Namespace) -> None:
    await admin.principals.delete_user(arguments.name)
    print_facts({"user": arguments.name, "state": "deleted"}, as_json=arguments.json)
