"""Policies: what maintenance tables are to have, attached to a catalog, a namespace, a table or a view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from lakebed.core.unset import UNSET, Unset

from .connection import ServerConnection
from .names import CATALOG_PAGE, TableRef, joined, path

_BASE: Final = "/polaris/v1"

Levels = tuple[str, ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A policy."""

    name: str
    policy_type: str
    inheritable: bool
    version: int
    """Goes up by one with every change."""
    description: str | None = None
    content: str | None = None
    """JSON, as text."""


class PolicyName(msgspec.Struct, frozen=True):
    """A policy by name."""

    namespace: Levels
    name: str


class OverriddenPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A policy that would hold if a nearer one did not."""

    namespace: Levels
    name: str
    version: int
    attached_to: str


class ApplicablePolicy(Policy, frozen=True, kw_only=True, rename="kebab"):
    """A policy that holds somewhere, and why."""

    namespace: Levels
    """Where the policy lives."""
    inherited: bool
    """Whether it is attached further up."""
    attached_to: str = ""
    """What it is attached to, for people: `catalog`, `namespace a.b` or `table a.b.t`."""
    parameters: dict[str, str] = {}
    """Given where it was attached."""
    overrides: list[OverriddenPolicy] = []
    """Policies of the same type that are attached further up, the nearest first."""
    reason: str = ""
    """All of this in words."""


class PolicyTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a policy is attached to."""

    type: str
    path: Levels = ()


CATALOG: Final = PolicyTarget("catalog")


def namespace_target(namespace: Sequence[str]) -> PolicyTarget:
    """A namespace, with all that is in it."""
    return PolicyTarget("namespace", tuple(namespace))


def table_target(namespace: Sequence[str], name: str) -> PolicyTarget:
    """A table or a view."""
    return PolicyTarget("table-like", (*namespace, name))


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """When a version of a policy was made, and by whom."""

    version: int
    created_at_ms: int
    created_by: str = ""
    """Empty where nobody wrote that down."""
    description: str | None = None


class PastPolicy(Policy, frozen=True, kw_only=True, rename="kebab"):
    """A policy as it was at a version."""

    created_at_ms: int
    created_by: str = ""


class AttachedTarget(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Something that a policy is attached to."""

    target: PolicyTarget
    attached_to: str
    parameters: dict[str, str] = {}
    attached_at_ms: int


class PolicyEffect(
    msgspec.Struct, frozen=True, kw_only=True, rename={"policy_type": "policy-type", "before": "from", "after": "to"}
):
    """A policy that would hold in place of another, or of none, or no longer."""

    policy_type: str
    before: ApplicablePolicy | None = None
    after: ApplicablePolicy | None = None
    why: str


class AffectedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table or view for which something would change."""

    kind: str
    namespace: Levels
    name: str
    changes: list[PolicyEffect]


class _Versions(msgspec.Struct, rename="kebab"):
    versions: list[PolicyVersion]
    next_page_token: str | None = None


class _Past(msgspec.Struct):
    policy: PastPolicy


class _Targets(msgspec.Struct, rename="kebab"):
    targets: list[AttachedTarget]
    next_page_token: str | None = None


class _Effects(msgspec.Struct, rename="kebab"):
    affected: list[AffectedTable]
    next_page_token: str | None = None


class _Uncovered(msgspec.Struct, rename="kebab"):
    class Table(msgspec.Struct):
        namespace: Levels
        table: str

    tables: list[Table]
    next_page_token: str | None = None


class _Loaded(msgspec.Struct):
    policy: Policy


class _Names(msgspec.Struct, rename="kebab"):
    identifiers: list[PolicyName] = []
    next_page_token: str | None = None


class _Applicable(msgspec.Struct, rename="kebab"):
    applicable_policies: list[ApplicablePolicy]
    next_page_token: str | None = None


class _Why(msgspec.Struct):
    policies: list[ApplicablePolicy]


class Policies:
    """The policy store, over the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def create(
        self,
        warehouse: str,
        namespace: Sequence[str],
        name: str,
        policy_type: str,
        content: str | Mapping[str, object],
        *,
        description: str | None = None,
    ) -> Policy:
        """Make a policy in a namespace. Raises InvalidPolicy with the path of what is wrong in it, AlreadyExists."""
        document = {"name": name, "type": policy_type, "content": _text(content)}
        if description is not None:
            document["description"] = description
        return self._connection.read(_Loaded, "POST", _policies(warehouse, namespace), document=document).policy

    def list(self, warehouse: str, namespace: Sequence[str], *, policy_type: str | None = None) -> Iterator[PolicyName]:
        """The policies that live in a namespace."""
        query = {"policyType": policy_type} if policy_type else {}
        for page in self._connection.pages(_Names, _policies(warehouse, namespace), query, parameter=CATALOG_PAGE):
            yield from page.identifiers

    def get(self, warehouse: str, namespace: Sequence[str], name: str) -> Policy:
        """One policy. Raises NotFound."""
        return self._connection.read(_Loaded, "GET", _policies(warehouse, namespace, name)).policy

    def update(
        self,
        warehouse: str,
        namespace: Sequence[str],
        name: str,
        content: str | Mapping[str, object],
        *,
        current_version: int,
        description: str | None = None,
    ) -> Policy:
        """Replace content and description. Raises PolicyVersionMismatch if it has changed since it was read."""
        document: dict[str, object] = {"content": _text(content), "current-policy-version": current_version}
        if description is not None:
            document["description"] = description
        return self._connection.read(_Loaded, "PUT", _policies(warehouse, namespace, name), document=document).policy

    def patch(
        self,
        warehouse: str,
        namespace: Sequence[str],
        name: str,
        *,
        current_version: int,
        content: str | Mapping[str, object] | Unset = UNSET,
        description: str | Unset | None = UNSET,
    ) -> Policy:
        """Replace what is given, and keep the rest. Raises PolicyVersionMismatch if it has changed since."""
        document: dict[str, object] = {"current-policy-version": current_version}
        if not isinstance(content, Unset):
            document["content"] = _text(content)
        if not isinstance(description, Unset):
            document["description"] = description
        return self._connection.read(_Loaded, "PATCH", _policies(warehouse, namespace, name), document=document).policy

    def drop(self, warehouse: str, namespace: Sequence[str], name: str, *, detach_all: bool = False) -> None:
        """Remove a policy. Raises PolicyInUse if it is attached, unless it is detached everywhere with it."""
        query = {"detach-all": "true"} if detach_all else {}
        self._connection.call("DELETE", _policies(warehouse, namespace, name), query=query)

    def attach(
        self,
        warehouse: str,
        namespace: Sequence[str],
        name: str,
        target: PolicyTarget,
        *,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Have a policy hold for a target; again with other parameters replaces them."""
        document: dict[str, object] = {"target": target}
        if parameters:
            document["parameters"] = dict(parameters)
        mappings = _policies(warehouse, namespace, name) + "/mappings"
        self._connection.call("PUT", mappings, document=document, repeatable=True)

    def detach(self, warehouse: str, namespace: Sequence[str], name: str, target: PolicyTarget) -> None:
        """Have a policy hold for a target no longer. Raises NotFound if it did not."""
        mappings = _policies(warehouse, namespace, name) + "/mappings"
        self._connection.call("POST", mappings, document={"target": target})

    def applicable(
        self, warehouse: str, namespace: Sequence[str] = (), name: str | None = None, *, policy_type: str | None = None
    ) -> Iterator[ApplicablePolicy]:
        """The policies that hold for a catalog, a namespace or a table, inherited ones too."""
        query = {"namespace": joined(namespace)} if namespace else {}
        if name is not None:
            query["target-name"] = name
        if policy_type is not None:
            query["policyType"] = policy_type
        where = _BASE + path(warehouse, "applicable-policies")
        for page in self._connection.pages(_Applicable, where, query, parameter=CATALOG_PAGE):
            yield from page.applicable_policies

    def why(self, table: TableRef) -> Sequence[ApplicablePolicy]:
        """The policies that maintain a table, for whoever may look at its maintenance. Raises NoSuchTable."""
        where = "/lakebed/v1/tables" + path(*table, "policies")
        return self._connection.read(_Why, "GET", where).policies

    def versions(self, warehouse: str, namespace: Sequence[str], name: str) -> Iterator[PolicyVersion]:
        """The versions of a policy, the latest first."""
        where = _policies(warehouse, namespace, name) + "/versions"
        for page in self._connection.pages(_Versions, where, parameter=CATALOG_PAGE):
            yield from page.versions

    def version(self, warehouse: str, namespace: Sequence[str], name: str, version: int) -> PastPolicy:
        """A policy as it was at a version. Raises NoSuchPolicy."""
        where = _policies(warehouse, namespace, name) + path("versions", str(version))
        return self._connection.read(_Past, "GET", where).policy

    def targets(self, warehouse: str, namespace: Sequence[str], name: str) -> Iterator[AttachedTarget]:
        """What a policy is attached to."""
        for page in self._connection.pages(_Targets, _asked(warehouse, namespace, name) + "/targets"):
            yield from page.targets

    def effect(
        self, warehouse: str, namespace: Sequence[str], name: str, target: PolicyTarget, *, change: str = "attach"
    ) -> Iterator[AffectedTable]:
        """The tables and views for which something would change, were a policy attached; or `detach`ed."""
        query = {"change": change}
        if target.type == "namespace":
            query["namespace"] = joined(target.path)
        elif target.type == "table-like":
            query |= {"namespace": joined(target.path[:-1]), "target-name": target.path[-1]}
        for page in self._connection.pages(_Effects, _asked(warehouse, namespace, name) + "/effect", query):
            yield from page.affected

    def uncovered(
        self, warehouse: str, namespace: Sequence[str] = (), *, policy_type: str | None = None
    ) -> Iterator[TableRef]:
        """The tables of a warehouse, or of a namespace with all that is in it, for which no policy of a type holds."""
        query = {"warehouse": warehouse}
        if namespace:
            query["namespace"] = joined(namespace)
        if policy_type is not None:
            query["type"] = policy_type
        for page in self._connection.pages(_Uncovered, "/lakebed/v1/tables/without-policy", query):
            yield from (TableRef(warehouse, one.namespace, one.table) for one in page.tables)


def _asked(warehouse: str, namespace: Sequence[str], name: str) -> str:
    return "/lakebed/v1/policies" + path(warehouse, tuple(namespace), name)


def _policies(warehouse: str, namespace: Sequence[str], *name: str) -> str:
    return _BASE + path(warehouse, "namespaces", tuple(namespace), "policies", *name)


def _text(content: str | Mapping[str, object]) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()
