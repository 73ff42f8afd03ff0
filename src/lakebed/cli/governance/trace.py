"""`lakebed trace`: traces files, key ids and requests to the vended credentials behind them.

Sends requests to a running server.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

import msgspec

from lakebed.client import Delegation, LakebedClient, ObjectAccess, TableRef
from lakebed.core.errors import InvalidInput, NotFound

from ..output import print_facts, print_json, print_rows
from ..server_access import add_access_flags, read_access
from ..settings_flags import read_settings
from .administration import moment

Command = Callable[[LakebedClient, argparse.Namespace], None]

_SHOWN: Final = 100
_UNRECORDED: Final = "issue-not-recorded"
"""Replaces the kind of a key whose delegation record was lost; only its accesses are recorded."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    words = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    found = _add(words, "object", "show accesses to a file with vended credentials or signatures", _object)
    found.add_argument("address", metavar="s3://BUCKET/KEY")
    key = _add(words, "key", "show the issue of a vended key, and its accesses", _key)
    key.add_argument("id", metavar="ACCESS_KEY_ID", help="as in logs, events and requests")
    vended = _add(words, "list", "list vended credentials and signatures, newest first", _list)
    vended.add_argument("--principal", metavar="NAME", default="", help="issued to this principal")
    vended.add_argument("--request", metavar="ID", default="", help="issued to this request")
    vended.add_argument("--warehouse", metavar="BUCKET", default="", help="for tables of this table bucket")
    vended.add_argument("--table", metavar="NAMESPACE.TABLE", help="for this table of the table bucket")


def run(arguments: argparse.Namespace) -> int:
    """Run the query and print its result."""
    access = read_access(arguments, read_settings(arguments).settings)
    with LakebedClient(access=access) as client:
        arguments.command(client, arguments)
    return 0


def _object(client: LakebedClient, arguments: argparse.Namespace) -> None:
    parts = urlsplit(arguments.address)
    if parts.scheme not in ("s3", "s3a", "s3n") or not parts.netloc:
        raise InvalidInput(f"expected s3://BUCKET/KEY. found={arguments.address!r}", argument="address")
    key = arguments.address.partition("://")[2].partition("/")[2]
    _print_accesses(list(islice(client.trace.object(parts.netloc, key), arguments.limit)), as_json=arguments.json)


def _key(client: LakebedClient, arguments: argparse.Namespace) -> None:
    accesses = list(islice(client.trace.accesses(arguments.id), arguments.limit))
    delegation: Delegation | None = None
    try:
        delegation = client.trace.delegation(arguments.id)
    except NotFound:
        # A crash may have lost the record; accesses are recorded separately.
        if not accesses:
            raise
    if arguments.json:
        known = _document_by_access(accesses[0]) if delegation is None else msgspec.to_builtins(delegation)
        print_json(known | {"accesses": [msgspec.to_builtins(access) for access in accesses]})
        return
    print_facts(_facts_by_access(accesses[0]) if delegation is None else _facts(delegation), as_json=False)
    print()
    rows = [(one.operation, str(one.status), one.key, *_sums(one)) for one in accesses]
    print_rows(("operation", "status", "key", *_SUM_COLUMNS), rows, as_json=False)


def _list(client: LakebedClient, arguments: argparse.Namespace) -> None:
    table = None
    if arguments.table is not None:
        table = TableRef.parse(arguments.warehouse, arguments.table)
    found = client.trace.delegations(
        principal=arguments.principal, request_id=arguments.request, catalog=arguments.warehouse, table=table
    )
    shown = list(islice(found, arguments.limit))
    if arguments.json:
        print_json([msgspec.to_builtins(delegation) for delegation in shown])
        return
    rows = [
        (
            one.id,
            one.kind,
            one.principal,
            str(one.ref),
            "+".join(one.actions),
            moment(one.issued_ms),
            moment(one.expires_ms),
            one.request_id,
        )
        for one in shown
    ]
    columns = ("key", "kind", "principal", "table", "actions", "issued", "expires", "request")
    print_rows(columns, rows, as_json=False)


def _print_accesses(accesses: Sequence[ObjectAccess], *, as_json: bool) -> None:
    if as_json:
        print_json([msgspec.to_builtins(access) for access in accesses])
        return
    rows = [
        (
            one.operation,
            str(one.status),
            one.principal,
            _table(one),
            one.kind if one.issue_recorded else _UNRECORDED,
            one.delegation,
            one.request_id,
            *_sums(one),
        )
        for one in accesses
    ]
    columns = ("operation", "status", "principal", "table", "kind", "key id", "obtained by request")
    print_rows((*columns, *_SUM_COLUMNS), rows, as_json=False)


_SUM_COLUMNS: Final = ("requests", "received", "sent", "last", "last request")


def _sums(one: ObjectAccess) -> tuple[str, ...]:
    return (
        str(one.requests),
        str(one.received_bytes),
        str(one.sent_bytes),
        moment(one.last_ms),
        one.last_request_id,
    )


def _table(one: ObjectAccess) -> str:
    return str(TableRef(one.catalog, tuple(one.namespace), one.table)) if one.table else one.table_id


def _document_by_access(one: ObjectAccess) -> dict[str, object]:
    """A key without a delegation record, from its session token in an access."""
    return {
        "id": one.delegation,
        "issue-recorded": False,
        "principal": one.principal,
        "request-id": one.request_id,
        "table-id": one.table_id,
    }


def _facts_by_access(one: ObjectAccess) -> dict[str, str]:
    return {
        "key": one.delegation,
        "kind": _UNRECORDED,
        "principal": one.principal,
        "by_request": one.request_id,
        "for_table": one.table_id,
    }


def _facts(delegation: Delegation) -> dict[str, str]:
    facts = {
        "key": delegation.id,
        "kind": delegation.kind,
        "principal": f"{delegation.principal} ({delegation.arn})",
        "obtained_with": delegation.obtained_with,
        "by_request": delegation.request_id,
        "from_address": delegation.remote,
        "for_table": str(delegation.ref),
        "prefixes": ", ".join(delegation.prefixes),
        "actions": ", ".join(delegation.actions),
        "issued": moment(delegation.issued_ms),
        "expires": moment(delegation.expires_ms),
    }
    if delegation.signed_request:
        facts["signed_request"] = delegation.signed_request
    return facts


def _add(
    words: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, command: Command
) -> argparse.ArgumentParser:
    parser = words.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.add_argument("--limit", type=_count, default=_SHOWN, help=f"maximum number of rows (default {_SHOWN})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_access_flags(parser, warehouse=False)
    parser.set_defaults(command=command)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or greater")
    return number
