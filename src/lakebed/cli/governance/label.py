"""`lakebed label`: tags and owners of catalogs, their entities, principals and roles."""

from __future__ import annotations

import argparse
import os

import msgspec

from lakebed.client import LakebedClient
from lakebed.client.labels import IN_CATALOGS, KINDS, Labelled, Owner, Subject
from lakebed.core.errors import InvalidInput
from lakebed.core.unset import UNSET, Unset

from ..output import print_facts, print_json, print_rows
from ..server_access import WAREHOUSE_VARIABLE
from ..server_requests import ServerCommand, add_server_command, run_server_command

run = run_server_command

_NONE = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    _add_named(tasks, "show", "show the tags and the owner of an entity", _show)
    change = _add_named(tasks, "set", "set or remove tags and the owner of an entity", _set)
    change.add_argument("--tag", metavar="KEY=VALUE", action="append", default=[], help="set a tag")
    change.add_argument("--remove-tag", metavar="KEY", action="append", default=[], help="remove a tag")
    change.add_argument("--owner", metavar="OWNER", help="principal:NAME or principal-role:NAME")
    change.add_argument("--no-owner", action="store_true", help="remove the owner")
    find = add_server_command(tasks, "find", "list entities by tag or owner", _find)
    find.add_argument("--tag", metavar="KEY[:VALUE]", help="entities with this tag")
    find.add_argument("--owner", metavar="OWNER", help="entities owned by principal:NAME or principal-role:NAME")
    find.add_argument("--kind", choices=KINDS, metavar="KIND", help="one of " + ", ".join(KINDS))
    find.add_argument("--catalog", metavar="CATALOG", help="only entities of this catalog")


def _show(client: LakebedClient, arguments: argparse.Namespace) -> None:
    _print(client.labels.get(_subject(arguments)), as_json=arguments.json)


def _set(client: LakebedClient, arguments: argparse.Namespace) -> None:
    if arguments.owner and arguments.no_owner:
        raise InvalidInput("give --owner or --no-owner", argument="--no-owner")
    owner: Owner | Unset | None = UNSET
    if arguments.no_owner:
        owner = None
    elif arguments.owner:
        owner = Owner.parse(arguments.owner)
    changed = client.labels.change(
        _subject(arguments), set_tags=_tags(arguments.tag), remove_tags=arguments.remove_tag, owner=owner
    )
    _print(changed, as_json=arguments.json)


def _find(client: LakebedClient, arguments: argparse.Namespace) -> None:
    owner = Owner.parse(arguments.owner) if arguments.owner else None
    found = list(client.labels.find(arguments.tag, owner=owner, kind=arguments.kind, catalog=arguments.catalog))
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [(one.kind, str(one.subject), _owner(one), _pairs(one)) for one in found]
    print_rows(("kind", "name", "owner", "tags"), rows, as_json=False)


def _print(labelled: Labelled, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(labelled))
        return
    facts = {labelled.kind: str(labelled.subject), "owner": _owner(labelled), "tags": _pairs(labelled) or _NONE}
    print_facts(facts, as_json=False)


def _owner(labelled: Labelled) -> str:
    return _NONE if labelled.owner is None else str(labelled.owner)


def _pairs(labelled: Labelled) -> str:
    return ", ".join(f"{key}:{value}" for key, value in sorted(labelled.tags.items()))


def _tags(given: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in given:
        key, between, value = text.partition("=")
        if not between or not key:
            raise InvalidInput(f"expected KEY=VALUE. found={text!r}", argument="--tag")
        tags[key] = value
    return tags


def _subject(arguments: argparse.Namespace) -> Subject:
    catalog = arguments.warehouse or os.environ.get(WAREHOUSE_VARIABLE, "")
    return Subject.parse(arguments.kind, arguments.name, catalog=catalog)


def _add_named(
    tasks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, question: ServerCommand
) -> argparse.ArgumentParser:
    parser = add_server_command(tasks, name, text, question, warehouse=True)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help="one of " + ", ".join(KINDS))
    parser.add_argument(
        "name",
        help=f"its name, or NAMESPACE.NAME; for {', '.join(IN_CATALOGS[1:])} give --warehouse",
    )
    return parser
