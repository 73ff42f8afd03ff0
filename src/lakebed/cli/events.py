"""`lakebed events`: what happens, as it happens; and the targets that it is sent to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from lakebed.client import LakebedClient
from lakebed.client.events import Event, Events

from .events_target import configure_targets
from .governance.administration import moment
from .server_requests import add_server_command, run_server_command

run = run_server_command

NEWEST: Final = 10
"""How many events `tail --no-follow` shows, unless it is said: as tail(1) does."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The things to do with events."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    tail = add_server_command(tasks, "tail", "show events as they come, or those that there are", _tail)
    tail.add_argument("--kind", metavar="NAME", action="append", default=[], help="of this kind; NAME* for a beginning")
    tail.add_argument("--subject", metavar="NAME", default="", help="about this, or what is in it")
    tail.add_argument("--principal", metavar="NAME", default="", help="done by this user")
    tail.add_argument(
        "--after", metavar="EVENT", help="behind this event, by its number or id; by default, from now on"
    )
    tail.add_argument(
        "--limit",
        metavar="COUNT",
        type=_number,
        help=f"show so many at most; with --no-follow and without --after the newest ones, {NEWEST} by default",
    )
    tail.add_argument("--no-follow", action="store_true", help="show the newest events, and do not wait for others")
    tail.add_argument("--audit", action="store_true", help="what the audit trail is made of")
    configure_targets(tasks)


def _tail(client: LakebedClient, arguments: argparse.Namespace) -> None:
    log = client.audit if arguments.audit else client.events
    for event in islice(_events(log, arguments), arguments.limit):
        # At once: somebody looks, or a program reads line by line.
        print(_line(event, as_json=arguments.json), flush=True)


def _events(log: Events, arguments: argparse.Namespace) -> Iterator[Event]:
    kinds, subject, principal = arguments.kind, arguments.subject, arguments.principal
    after: str | None = arguments.after
    if not arguments.no_follow:
        start = log.read(limit=0).last_seq if after is None else after
        yield from log.follow(start, kinds=kinds, subject=subject, principal=principal)
    elif after is None:
        count = NEWEST if arguments.limit is None else arguments.limit
        yield from log.newest(count, kinds=kinds, subject=subject, principal=principal)
    else:
        for page in log.pages(after, kinds=kinds, subject=subject, principal=principal):
            yield from page.events


def _line(event: Event, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(msgspec.to_builtins(event), ensure_ascii=False)
    who = event.payload.get("principal")
    words = [str(event.seq), moment(event.occurred_ms), event.kind, event.subject or "-"]
    return "  ".join([*words, f"by {who}"] if who else words)


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("not a number of events")
    return number
