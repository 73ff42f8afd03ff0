"""`lakebed policy`: access policies of users."""

from __future__ import annotations

import argparse
from pathlib import Path

from lakebed.core.errors import InvalidInput, NoSuchUserPolicy
from lakebed.governance import CANNED_POLICIES

from ..output import print_facts, print_rows
from .administration import Administration, add_task, run_task

run = run_task


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    listing = add_task(tasks, "list", "list a user's policies, or the canned policies", _list)
    listing.add_argument("user", nargs="?")
    for name, text, task in (
        ("attach", "attach a canned policy to a user", _attach),
        ("detach", "detach a policy from a user", _detach),
        ("show", "print a user's policy", _show),
    ):
        parser_of_task = add_task(tasks, name, text, task)
        parser_of_task.add_argument("user")
        parser_of_task.add_argument("policy")
    put = add_task(tasks, "put", "create or replace an inline policy of a user", _put)
    put.add_argument("user")
    put.add_argument("policy")
    put.add_argument("file", type=Path, help="a policy document in JSON")


async def _list(admin: Administration, arguments: argparse.Namespace) -> None:
    if arguments.user is None:
        rows = [(name, "canned") for name in sorted(CANNED_POLICIES)]
    else:
        found = await admin.principals.policies(arguments.user)
        rows = [(policy.name, "canned" if policy.is_canned else "own") for policy in found]
    print_rows(("policy", "kind"), rows, as_json=arguments.json)


async def _attach(admin: Administration, arguments: argparse.Namespace) -> None:
    await admin.principals.attach_canned(arguments.user, arguments.policy)
    _print_done(arguments, "attached")


async def _put(admin: Administration, arguments: argparse.Namespace) -> None:
    try:
        document = arguments.file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"policy file cannot be read. path={arguments.file} reason={error.strerror}") from error
    await admin.principals.put_policy(arguments.user, arguments.policy, document)
    _print_done(arguments, "attached")


async def _detach(admin: Administration, arguments: argparse.Namespace) -> None:
    own = {policy.name for policy in await admin.principals.policies(arguments.user) if not policy.is_canned}
    if arguments.policy in own:  # an inline policy takes precedence over a canned one of the same name
        await admin.principals.delete_policy(arguments.user, arguments.policy)
    else:
        await admin.principals.detach_canned(arguments.user, arguments.policy)
    _print_done(arguments, "detached")


async def _show(admin: Administration, arguments: argparse.Namespace) -> None:
    for policy in await admin.principals.policies(arguments.user):
        if policy.name == arguments.policy:
            print(policy.document.decode())
            return
    raise NoSuchUserPolicy(f"user has no such policy. user={arguments.user} policy={arguments.policy}")


def _print_done(arguments: argparse.Namespace, state: str) -> None:
    print_facts({"user": arguments.user, "policy": arguments.policy, "state": state}, as_json=arguments.json)
