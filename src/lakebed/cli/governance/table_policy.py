"""`lakebed table-policy`: what policies of tables hold for, what they said, and what attaching one would do.

They speak to a running server, as any client does, and change nothing.
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
    """The questions."""
    questions = parser.add_subparsers(title="questions", metavar="QUESTION", required=True)
    _add(questions, "targets", "show what a policy is attached to", _targets)
    _add(questions, "versions", "list the versions of a policy", _versions)
    show = _add(questions, "show", "print what a policy says, or said at a version", _show)
    show.add_argument("--version", type=int, metavar="NUMBER", help="a version that it had")
    effect = _add(questions, "effect", "show for which tables something would change, were a policy attached", _effect)
    effect.add_argument("--namespace", metavar="NAMESPACE", help="attached to this namespace")
    effect.add_argument("--table", metavar="NAMESPACE.TABLE", help="attached to this table or view")
    effect.add_argument("--detach", action="store_true", help="were it detached")
    uncovered = add_server_command(
        questions, "uncovered", "list the tables for which no policy holds", _uncovered, warehouse=True
    )
    uncovered.add_argument("--namespace", metavar="NAMESPACE", help="only those in it, at any depth")
    uncovered.add_argument("--type", metavar="TYPE", help="no policy of this type: system.data-compaction")


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
        (f"{one.kind} {_named(one)}", effect.policy_type, _said(effect.before), _said(effect.after), effect.why)
        for one in found
        for effect in one.changes
    ]
    print_rows(("for", "type", "from", "to", "why"), rows, as_json=False)


def _uncovered(client: LakebedClient, arguments: argparse.Namespace) -> None:
    namespace = tuple(arguments.namespace.split(".")) if arguments.namespace else ()
    found = client.policies.uncovered(read_warehouse(arguments), namespace, policy_type=arguments.type)
    print_rows(("table",), [(table.name,) for table in found], as_json=arguments.json)


def _add(
    questions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, question: ServerCommand
) -> argparse.ArgumentParser:
    parser = add_server_command(questions, name, text, question, warehouse=True)
    parser.add_argument("policy", metavar="NAMESPACE.POLICY", help="the policy, and the namespace that it lives in")
    return parser


def _policy(arguments: argparse.Namespace) -> tuple[Sequence[str], str]:
    *namespace, name = arguments.policy.split(".")
    if not namespace or not all(namespace) or not name:
        raise InvalidName(f"a policy is namespace.policy. found={arguments.policy!r}", argument="policy")
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
        raise InvalidName(f"a table is namespace.table. found={arguments.table!r}", argument="--table")
    return table_target(namespace, name)


def _named(one: AffectedTable) -> str:
    return ".".join((*one.namespace, one.name))


def _said(policy: ApplicablePolicy | None) -> str:
    if policy is None:
        return _NONE
    return f"{'.'.join((*policy.namespace, policy.name))} v{policy.version} of {policy.attached_to}"


def _pairs(parameters: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
