"""`lakebed table-policy`: targets and versions of catalog policies, and a preview of what attaching one would change.

Sends requests to a running server; read-only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from lakebed.client import LakebedClient
from lakebed.client.policies import (
    CATALOG,
    AffectedTable,
    ApplicablePolicy,
    PolicyTarget,
    namespace_target,
    table_target,
)
from lakebed.core.errors import InvalidInput, InvalidName

from ..output import print_json, print_rows
from ..server_access import read_warehouse
from ..server_requests import ServerCommand, add_server_command, run_server_command
from .administration import moment

run = run_server_command

_NONE = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the queries."""
    queries = parser.add_subparsers(title="queries", metavar="QUERY", required=True)
    _add(queries, "targets", "list the targets that a policy is attached to", _targets)
    _add(queries, "versions", "list the versions of a policy", _versions)
    show = _add(queries, "show", "print the content of a policy or of one of its versions", _show)
    show.add_argument("--version", type=int, metavar="NUMBER", help="print this version instead of the latest")
    effect = _add(queries, "effect", "preview what attaching or detaching a policy would change", _effect)
    effect.add_argument("--namespace", metavar="NAMESPACE", help="preview for this namespace")
    effect.add_argument("--table", metavar="NAMESPACE.TABLE", help="preview for this table or view")
    effect.add_argument("--detach", action="store_true", help="preview detaching instead of attaching")
    uncovered = add_server_command(
        queries, "uncovered", "list tables without an effective policy", _uncovered, warehouse=True
    )
    uncovered.add_argument("--namespace", metavar="NAMESPACE", help="only tables in this namespace, at any depth")
    uncovered.add_argument(
        "--type", metavar="TYPE", help="without a policy of this type, such as system.data-compaction"
    )


def _targets(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = list(client.policies.targets(read_warehouse(arguments), *_policy(arguments)))
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [(one.attached_to, _pairs(one.parameters), moment(one.attached_at_ms)) for one in found]
    print_rows(("attached to", "parameters", "since"), rows, as_json=False)


def _versions(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = list(client.policies.versions(read_warehouse(arguments), *_policy(arguments)))
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [
        (str(one.version), moment(one.created_at_ms), one.created_by or _NONE, one.description or "") for one in found
    ]
    print_rows(("version", "made", "by", "description"), rows, as_json=False)


def _show(client: LakebedClient, arguments: argparse.Namespace) -> None:
    warehouse, (namespace, name) = read_warehouse(arguments), _policy(arguments)
    if arguments.version is None:
        policy = client.policies.get(warehouse, namespace, name)
    else:
        policy = client.policies.version(warehouse, namespace, name, arguments.version)
    if arguments.json:
        print_json(msgspec.to_builtins(policy))
    else:
        print(policy.content)


def _effect(client: LakebedClient, arguments: argparse.Namespace) -> None:
    change = "detach" if arguments.detach else "attach"
    target = _target(arguments)
    found = list(client.policies.effect(read_warehouse(arguments), *_policy(arguments), target, change=change))
    if arguments.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [
        (
            f"{one.kind} {_named(one)}",
            effect.policy_type,
            _described(effect.before),
            _described(effect.after),
            effect.why,
        )
        for one in found
        for effect in one.changes
    ]
    print_rows(("for", "type", "from", "to", "why"), rows, as_json=False)


def _uncovered(client: LakebedClient, arguments: argparse.Namespace) -> None:
    namespace = tuple(arguments.namespace.split(".")) if arguments.namespace else ()
    found = client.policies.uncovered(read_warehouse(arguments), namespace, policy_type=arguments.type)
    print_rows(("table",), [(table.name,) for table in found], as_json=arguments.json)


def _add(
    queries: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, question: ServerCommand
) -> argparse.ArgumentParser:
    parser = add_server_command(queries, name, text, question, warehouse=True)
    parser.add_argument("policy", metavar="NAMESPACE.POLICY", help="the policy with its namespace")
    return parser


def _policy(arguments: argparse.Namespace) -> tuple[Sequence[str], str]:
    *namespace, name = arguments.policy.split(".")
    if not namespace or not all(namespace) or not name:
        raise InvalidName(f"expected NAMESPACE.POLICY. found={arguments.policy!r}", argument="policy")
    return namespace, name


def _target(arguments: argparse.Namespace) -> PolicyTarget:
    if arguments.namespace and arguments.table:
        raise InvalidInput("give --namespace or --table, or neither for the whole catalog", argument="--table")
    if arguments.namespace:
        return namespace_target(arguments.namespace.split("."))
    if not arguments.table:
        return CATALOG
    *namespace, name = arguments.table.split(".")
    if not namespace:
        raise InvalidName(f"expected NAMESPACE.TABLE. found={arguments.table!r}", argument="--table")
    return table_target(namespace, name)


def _named(one: AffectedTable) -> str:
    return ".".join((*one.namespace, one.name))


def _described(policy: ApplicablePolicy | None) -> str:
    if policy is None:
        return _NONE
    return f"{'.'.join((*policy.namespace, policy.name))} v{policy.version} of {policy.attached_to}"


def _pairs(parameters: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
