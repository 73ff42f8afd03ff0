"""`lakebed events target`: manage event targets, their retries and dead letters."""

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
    """Add `target` and its subcommands."""
    text = "manage event targets, and inspect undelivered events"
    parser = tasks.add_parser("target", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    words = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    add_server_command(words, "list", "list targets with their backlog", _list)
    add_server_command(words, "arns", "list the ARNs of targets, for bucket notifications", _arns)
    _add(words, "show", "show a target", _show)
    put = _add(words, "put", "add or change a target", _put)
    put.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the target type; @FILE reads the value from a file, for secrets",
    )
    put.add_argument(
        "--kind", metavar="NAME", action="append", default=[], help="send events of this kind; NAME* matches a prefix"
    )
    put.add_argument("--subject", metavar="NAME", default="", help="only events of this subject, or below it")
    put.add_argument("--audit", action="store_true", help="send the events of the audit log")
    put.add_argument("--requests", action="store_true", help="send an audit log entry for every request")
    put.add_argument(
        "--form", metavar="FORM", default="", help="the form of messages: s3, envelope, cloudevents, lakebed or audit"
    )
    _add(words, "delete", "delete a target and its undelivered events", _delete)
    _add(words, "test", "test whether a target accepts events", _test)
    _add(words, "pause", "pause deliveries to a target", _pause)
    _add(words, "resume", "resume deliveries to a target", _resume)
    deliveries = _add(words, "deliveries", "list dead letters or events waiting for a retry", _deliveries)
    deliveries.add_argument("--state", choices=("dead", "waiting"), default="dead", help="default: dead")
    deliveries.add_argument("--limit", type=int, default=_SHOWN, help=f"maximum number of events (default {_SHOWN})")
    redrive = _add(words, "redrive", "redrive dead letters", _redrive)
    redrive.add_argument("--seq", metavar="NUMBER", type=int, help="only this event")


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
        raise Unavailable(f"{arguments.target} is not ready: {failure}")
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
    facts |= {name: f"{value} (generated, shown only once)" for name, value in target.made.items()}
    print_facts(facts, as_json=False)


def _sent(target: TargetStatus) -> str:
    words = [*target.kinds]
    if target.audit:
        words.append("audit")
    if target.requests:
        words.append("every request")
    return ", ".join(words) or "events of bucket rules only"


def _options(given: list[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for text in given:
        name, between, value = text.partition("=")
        if not between or not name:
            # The text is not quoted: it may be a secret.
            raise InvalidInput("an option is NAME=VALUE", argument="--option")
        options[name] = _from_file(value[1:]) if value.startswith("@") else value
    return options


def _from_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the file cannot be read. path={path} error={error}", argument="--option") from error


def _named(arguments: argparse.Namespace) -> tuple[str, str]:
    """Type and name of the target."""
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
