"""`lakebed events`: tail the event log, and manage targets."""

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
"""Default number of events of `tail --no-follow`, as of tail(1)."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of events."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    tail = add_server_command(tasks, "tail", "show new or stored events", _tail)
    tail.add_argument(
        "--kind", metavar="NAME", action="append", default=[], help="only events of this kind; NAME* matches a prefix"
    )
    tail.add_argument("--subject", metavar="NAME", default="", help="only events of this subject, or below it")
    tail.add_argument("--principal", metavar="NAME", default="", help="only events of this principal")
    tail.add_argument("--after", metavar="EVENT", help="start after this event, by number or id (default: new events)")
    tail.add_argument(
        "--limit",
        metavar="COUNT",
        type=_number,
        help=f"maximum number of events; with --no-follow and without --after the newest, {NEWEST} by default",
    )
    tail.add_argument("--no-follow", action="store_true", help="show the newest events, and exit")
    tail.add_argument("--audit", action="store_true", help="read the audit log")
    configure_targets(tasks)


def _tail(client: LakebedClient, arguments: argparse.Namespace) -> None:
    log = client.audit if arguments.audit else client.events
    for event in islice(_events(log, arguments), arguments.limit):
        # Flushed, for terminals and programs that read line by line.
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
