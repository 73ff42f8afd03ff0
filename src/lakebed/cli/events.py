"""`lakebed events`: what happens, as it happens; and the targets that it is sent to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice

import msgspec

from lakebed.client import LakebedClient
from lakebed.client.events import Event, Events

from .administration import moment
from .asking import add_question, run_question
from .events_target import configure_targets

run = run_question


def configure(parser: argparse.ArgumentParser) -> None:
    """The things to do with events."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    tail = add_question(tasks, "tail", "show events as they come, or those that there are", _tail)
    tail.add_argument("--kind", metavar="NAME", action="append", default=[], help="of this kind; NAME* for a beginning")
    tail.add_argument("--subject", metavar="NAME", default="", help="about this, or what is in it")
    tail.add_argument("--principal", metavar="NAME", default="", help="done by this user")
    tail.add_argument("--after", metavar="NUMBER", type=_number, help="behind this event; by default, from now on")
    tail.add_argument("--limit", metavar="COUNT", type=_number, help="stop after so many")
    tail.add_argument("--no-follow", action="store_true", help="stop at the newest")
    tail.add_argument("--audit", action="store_true", help="what the audit trail is made of")
    configure_targets(tasks)


def _tail(client: LakebedClient, arguments: argparse.Namespace) -> None:
    log = client.audit if arguments.audit else client.events
    for event in islice(_events(log, arguments), arguments.limit):
        # At once: somebody looks, or a program reads line by line.
        print(_line(event, as_json=arguments.json), flush=True)


def _events(log: Events, arguments: argparse.Namespace) -> Iterator[Event]:
    kinds, subject, principal = arguments.kind, arguments.subject, arguments.principal
    if arguments.no_follow:
        for page in log.pages(arguments.after or 0, kinds=kinds, subject=subject, principal=principal):
            yield from page.events
        return
    after = arguments.after
    if after is None:
        after = log.read(limit=0).last_seq
    yield from log.follow(after, kinds=kinds, subject=subject, principal=principal)


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
