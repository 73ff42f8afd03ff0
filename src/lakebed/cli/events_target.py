"""`lakebed events target`: where events are sent, and what could not be delivered."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import msgspec

from lakebed.client import LakebedClient, TargetStatus
from lakebed.core.errors import InvalidInput, Unavailable

from .governance.administration import moment
from .output import print_facts, print_json, print_rows
from .server_requests import ServerCommand, add_server_command

_SHOWN = 100


def configure_targets(tasks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the word `target`, and what can be done with targets."""
    text = "say where events are sent, and look at what could not be delivered"
    parser = tasks.add_parser("target", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    words = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    add_server_command(words, "list", "list targets, and how far each has come", _list)
    add_server_command(words, "arns", "list how configurations of buckets name targets", _arns)
    _add(words, "show", "show a target", _show)
    put = _add(words, "put", "add a target, or change it", _put)
    put.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of that type of target; VALUE may be @FILE, for secrets",
    )
    put.add_argument("--kind", metavar="NAME", action="append", default=[], help="send events of this kind; NAME* too")
    put.add_argument("--subject", metavar="NAME", default="", help="of those kinds, what is about this, or in it")
    put.add_argument("--audit", action="store_true", help="send what the audit trail is made of")
    put.add_argument("--requests", action="store_true", help="send an entry of an audit log for every request")
    put.add_argument("--form", metavar="FORM", default="", help="what events look like to it")
    _add(words, "delete", "remove a target, and what waits for it", _delete)
    _add(words, "test", "ask a target whether it would take an event now", _test)
    _add(words, "pause", "send a target nothing until it is resumed", _pause)
    _add(words, "resume", "send a target events again, from where it stood", _resume)
    deliveries = _add(words, "deliveries", "list what was given up, or waits to be tried again", _deliveries)
    deliveries.add_argument("--state", choices=("dead", "waiting"), default="dead", help="by default what was given up")
    deliveries.add_argument("--limit", type=int, default=_SHOWN, help=f"how many are shown (default {_SHOWN})")
    redrive = _add(words, "redrive", "have what was given up tried again", _redrive)
    redrive.add_argument("--seq", metavar="NUMBER", type=int, help="this event alone")


def _list(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = client.targets.list()
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [
        (
            f"{one.name}:{one.type}",
            "paused" if one.paused else "-",
            "-" if one.after is None else str(one.last_seq - one.after),
            str(one.waiting),
            str(one.dead),
            one.failure or "-",
        )
        for one in found
    ]
    print_rows(("target", "state", "behind", "waiting", "dead", "failure"), rows, as_json=False)


def _arns(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = client.targets.arns()
    if arguments.json:
        print_json(list(found))
        return
    for arn in found:
        print(arn)


def _show(client: LakebedClient, arguments: argparse.Namespace) -> None:
    _print(client.targets.get(*_named(arguments)), as_json=arguments.json)


def _put(client: LakebedClient, arguments: argparse.Namespace) -> None:
    put = client.targets.put(
        *_named(arguments),
        _options(arguments.option),
        kinds=arguments.kind,
        subject=arguments.subject,
        audit=arguments.audit,
        requests=arguments.requests,
        form=arguments.form,
    )
    _print(put, as_json=arguments.json)


def _delete(client: LakebedClient, arguments: argparse.Namespace) -> None:
    client.targets.delete(*_named(arguments))


def _test(client: LakebedClient, arguments: argparse.Namespace) -> None:
    failure = client.targets.test(*_named(arguments))
    if failure is not None:
        raise Unavailable(f"{arguments.target} would not take an event: {failure}")
    print_facts({"target": arguments.target, "state": "ready"}, as_json=arguments.json)


def _pause(client: LakebedClient, arguments: argparse.Namespace) -> None:
    client.targets.pause(*_named(arguments))


def _resume(client: LakebedClient, arguments: argparse.Namespace) -> None:
    client.targets.resume(*_named(arguments))


def _deliveries(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = list(islice(client.targets.undelivered(*_named(arguments), arguments.state), max(0, arguments.limit)))
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [
        (str(one.event.seq), one.event.kind, one.event.subject, str(one.attempts), moment(one.changed_ms), one.failure)
        for one in found
    ]
    print_rows(("event", "kind", "subject", "attempts", "last", "failure"), rows, as_json=False)


def _redrive(client: LakebedClient, arguments: argparse.Namespace) -> None:
    count = client.targets.redrive(*_named(arguments), arguments.seq)
    print_facts({"target": arguments.target, "redriven": str(count)}, as_json=arguments.json)


def _print(target: TargetStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(target))
        return
    facts = {
        "target": f"{target.name}:{target.type}",
        "arn": target.arn,
        "sent": _sent(target),
        "state": "paused" if target.paused else "served",
    }
    facts |= {name: str(value) for name, value in target.settings.items()}
    facts |= {name: f"{value} (made now, shown this once)" for name, value in target.made.items()}
    print_facts(facts, as_json=False)


def _sent(target: TargetStatus) -> str:
    words = [*target.kinds]
    if target.audit:
        words.append("audit")
    if target.requests:
        words.append("every request")
    return ", ".join(words) or "what bucket rules ask for"


def _options(given: list[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for text in given:
        name, between, value = text.partition("=")
        if not between or not name:
            # Not quoted: it may be a secret.
            raise InvalidInput("an option is NAME=VALUE", argument="--option")
        options[name] = _from_file(value[1:]) if value.startswith("@") else value
    return options


def _from_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the file cannot be read. path={path} error={error}", argument="--option") from error


def _named(arguments: argparse.Namespace) -> tuple[str, str]:
    """The type and the name of the target that is meant."""
    name, between, type_ = arguments.target.partition(":")
    if not between or not name or not type_:
        raise InvalidInput(f"a target is NAME:TYPE. found={arguments.target!r}", argument="target")
    return type_, name


def _add(
    words: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, question: ServerCommand
) -> argparse.ArgumentParser:
    parser = add_server_command(words, name, text, question)
    parser.add_argument("target", metavar="NAME:TYPE", help="its name and type: warehouse:webhook")
    return parser
