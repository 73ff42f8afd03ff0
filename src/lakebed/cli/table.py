"""`lakebed table`: enables table buckets; restores, purges and protects tables and views.

Like other administration commands, it accesses the stores directly as root, without the server.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from lakebed.catalog.catalogs.service import UNDROP_WINDOW
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import Catalog, EntryKind
from lakebed.core.errors import InvalidInput
from lakebed.core.sizes import parse_seconds
from lakebed.server.table_administration import TableAdministration, opened_tables

from .governance.administration import moment
from .output import print_facts, print_rows
from .settings_flags import add_settings_flags, read_settings

Task = Callable[[TableAdministration, argparse.Namespace], Awaitable[None]]

_PAGE = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    enable = _add(tasks, "enable-bucket", "make a bucket a table bucket", _enable)
    enable.add_argument("--undrop-window", metavar="DURATION", help="how long drops can be restored, such as 7d")
    bucket = _add(tasks, "bucket", "show or change the properties of a table bucket", _bucket)
    bucket.add_argument("--undrop-window", metavar="DURATION", help="how long drops can be restored; 0s: not at all")
    bucket.add_argument("--property", metavar="NAME=VALUE", action="append", default=[], help="set a property")
    bucket.add_argument("--remove-property", metavar="NAME", action="append", default=[], help="remove a property")
    _add(tasks, "list-dropped", "list dropped tables and views that can be restored", _list_dropped)
    _add_named(tasks, "restore", "restore a dropped table or view", _restore)
    purge = _add_named(tasks, "purge", "purge a dropped table or view now", _purge)
    purge.add_argument("--files", action="store_true", help="delete its files too")
    for name, text, task in (
        ("protect", "protect a table or view from drops", _protect),
        ("unprotect", "remove the protection from drops", _unprotect),
    ):
        _add_named(tasks, name, text, task).add_argument("--view", action="store_true", help="it is a view")


def run(arguments: argparse.Namespace) -> int:
    """Run the task with open stores."""
    asyncio.run(_run(arguments.task, arguments))
    return 0


async def _run(task: Task, arguments: argparse.Namespace) -> None:
    async with opened_tables(read_settings(arguments).settings) as tables:
        await task(tables, arguments)


async def _enable(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    catalog = await tables.catalogs.enable(tables.root, arguments.bucket)
    if arguments.undrop_window is not None:
        catalog = await _set(tables, arguments.bucket, _window(arguments.undrop_window), [])
    _print_bucket(catalog, as_json=arguments.json)


async def _bucket(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    updates: dict[str, str] = {}
    for text in arguments.property:
        name, separator, value = text.partition("=")
        if not separator:
            raise InvalidInput(f"--property: expected NAME=VALUE. found={text!r}", argument="--property")
        updates[name] = value
    if arguments.undrop_window is not None:
        updates |= _window(arguments.undrop_window)
    if updates or arguments.remove_property:
        catalog = await _set(tables, arguments.bucket, updates, arguments.remove_property)
    else:
        catalog = await tables.catalogs.get(tables.root, arguments.bucket)
    _print_bucket(catalog, as_json=arguments.json)


async def _list_dropped(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = []
    after, truncated = "", True
    while truncated:
        page = await tables.dropping.dropped(tables.root, arguments.bucket, after=after, limit=_PAGE)
        for one in page.items:
            entry = one.entry
            rows.append(
                (
                    str(Identifier(one.namespace, entry.name)),
                    entry.kind,
                    moment(entry.dropped_ms or 0),
                    moment(entry.expires_ms or 0),
                    "removed" if entry.purge else "kept",
                )
            )
            after = entry.id
        truncated = page.truncated
    print_rows(("name", "kind", "dropped", "until", "files"), rows, as_json=arguments.json)


async def _restore(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    identifier = _identifier(arguments.name)
    entry = await tables.dropping.restore(Mutation(tables.root), arguments.bucket, identifier)
    print_facts({entry.kind: str(identifier), "state": "restored"}, as_json=arguments.json)


async def _purge(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    identifier = _identifier(arguments.name)
    await tables.dropping.purge_now(Mutation(tables.root), arguments.bucket, identifier, files=arguments.files)
    print_facts({"name": str(identifier), "state": "purged"}, as_json=arguments.json)


async def _protect(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    await _set_protection(tables, arguments, protected=True)


async def _unprotect(tables: TableAdministration, arguments: argparse.Namespace) -> None:
    await _set_protection(tables, arguments, protected=False)


async def _set_protection(tables: TableAdministration, arguments: argparse.Namespace, *, protected: bool) -> None:
    identifier = _identifier(arguments.name)
    kind = EntryKind.VIEW if arguments.view else EntryKind.TABLE
    await tables.dropping.protect(Mutation(tables.root), arguments.bucket, identifier, kind, protected=protected)
    print_facts({kind: str(identifier), "state": "protected" if protected else "unprotected"}, as_json=arguments.json)


async def _set(tables: TableAdministration, bucket: str, updates: dict[str, str], removals: list[str]) -> Catalog:
    return await tables.catalogs.set_properties(tables.root, bucket, updates=updates, removals=removals)


def _window(text: str) -> dict[str, str]:
    return {UNDROP_WINDOW: str(round(parse_seconds(text)))}


def _identifier(text: str) -> Identifier:
    """Parse `namespace.name`; the namespace may have several levels."""
    *levels, name = text.split(".")
    if not levels:
        raise InvalidInput(f"expected NAMESPACE.NAME. found={text!r}", argument="name")
    return check_identifier(levels, name)


def _print_bucket(warehouse: Catalog, *, as_json: bool) -> None:
    facts = {"table_bucket": warehouse.name, "enabled": moment(warehouse.created_ms)}
    print_facts(facts | dict(sorted(warehouse.properties.items())), as_json=as_json)


def _add(
    tasks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, task: Task
) -> argparse.ArgumentParser:
    parser = tasks.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    add_settings_flags(parser, serving=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("bucket", help="the table bucket")
    parser.set_defaults(task=task)
    return parser


def _add_named(
    tasks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, task: Task
) -> argparse.ArgumentParser:
    parser = _add(tasks, name, text, task)
    parser.add_argument("name", help="NAMESPACE.NAME; dots separate namespace levels")
    return parser
