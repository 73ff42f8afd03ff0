"""Policies: stored in namespaces, attached to catalogs, namespaces, tables and views."""

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
    """Incremented by every change."""
    description: str | None = None
    content: str | None = None
    """JSON text."""


class PolicyName(msgspec.Struct, frozen=True):
    """A policy by name."""

    namespace: Levels
    name: str


class OverriddenPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A policy that is overridden by one attached further down."""

    namespace: Levels
    name: str
    version: int
    attached_to: str


class ApplicablePolicy(Policy, frozen=True, kw_only=True, rename="kebab"):
    """A policy that applies to a target, and why."""

    namespace: Levels
    """Namespace of the policy."""
    inherited: bool
    """Whether it is attached to a parent."""
    attached_to: str = ""
    """The attachment point, for display: `catalog`, `namespace a.b` or `table a.b.t`."""
    parameters: dict[str, str] = {}
    """Parameters of the attachment."""
    overrides: list[OverriddenPolicy] = []
    """Policies of the same type attached further up, nearest first."""
    reason: str = ""
    """Explanation of the above."""


class PolicyTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """A target of attachments."""

    type: str
    path: Levels = ()


CATALOG: Final = PolicyTarget("catalog")


def namespace_target(namespace: Sequence[str]) -> PolicyTarget:
    """A namespace with its contents."""
    return PolicyTarget("namespace", tuple(namespace))


def table_target(namespace: Sequence[str], name: str) -> PolicyTarget:
    """A table or view."""
    return PolicyTarget("table-like", (*namespace, name))


class PolicyVersion(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Time and author of a version."""

    version: int
    created_at_ms: int
    created_by: str = ""
    """Empty if not recorded."""
    description: str | None = None


class PastPolicy(Policy, frozen=True, kw_only=True, rename="kebab"):
    """A version of a policy."""

    created_at_ms: int
    created_by: str = ""


class AttachedTarget(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An attachment of a policy."""

    target: PolicyTarget
    attached_to: str
    parameters: dict[str, str] = {}
    attached_at_ms: int


class PolicyEffect(
    msgspec.Struct, frozen=True, kw_only=True, rename={"policy_type": "policy-type", "before": "from", "after": "to"}
):
    """The effective policy of a type before and after a change."""

    policy_type: str
    before: ApplicablePolicy | None = None
    after: ApplicablePolicy | None = None
    why: str


class AffectedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table or view whose effective policies would change."""

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
    """The policy API."""

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
        """Create a policy. Raises InvalidPolicy with the path of the error, AlreadyExists."""
        document = {"name": name, "type": policy_type, "content": _text(content)}
        if description is not None:
            document["description"] = description
        return self._connection.read(_Loaded, "POST", _policies(warehouse, namespace), document=document).policy

    def list(self, warehouse: str, namespace: Sequence[str], *, policy_type: str | None = None) -> Iterator[PolicyName]:
        """The policies of a namespace."""
        query = {"policyType": policy_type} if policy_type else {}
        for page in self._connection.pages(_Names, _policies(warehouse, namespace), query, parameter=CATALOG_PAGE):
            yield from page.identifiers

    def get(self, warehouse: str, namespace: Sequence[str], name: str) -> Policy:
        """Get a policy. Raises NotFound."""
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
        """Replace content and description. Raises PolicyVersionMismatch after a concurrent change."""
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
        """Replace the given fields. Raises PolicyVersionMismatch after a concurrent change."""
        document: dict[str, object] = {"current-policy-version": current_version}
        if not isinstance(content, Unset):
            document["content"] = _text(content)
        if not isinstance(description, Unset):
            document["description"] = description
        return self._connection.read(_Loaded, "PATCH", _policies(warehouse, namespace, name), document=document).policy

    def drop(self, warehouse: str, namespace: Sequence[str], name: str, *, detach_all: bool = False) -> None:
        """Drop a policy. Raises PolicyInUse if it is attached, unless `detach_all`."""
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
        """Attach a policy to a target. Attaching it again replaces the parameters."""
        document: dict[str, object] = {"target": target}
        if parameters:
            document["parameters"] = dict(parameters)
        mappings = _policies(warehouse, namespace, name) + "/mappings"
        self._connection.call("PUT", mappings, document=document, repeatable=True)

    def detach(self, warehouse: str, namespace: Sequence[str], name: str, target: PolicyTarget) -> None:
        """Detach a policy from a target. Raises NotFound if it is not attached."""
        mappings = _policies(warehouse, namespace, name) + "/mappings"
        self._connection.call("POST", mappings, document={"target": target})

    def applicable(
        self, warehouse: str, namespace: Sequence[str] = (), name: str | None = None, *, policy_type: str | None = None
    ) -> Iterator[ApplicablePolicy]:
        """The policies that apply to a catalog, a namespace or a table, including inherited ones."""
        query = {"namespace": joined(namespace)} if namespace else {}
        if name is not None:
            query["target-name"] = name
        if policy_type is not None:
            query["policyType"] = policy_type
        where = _BASE + path(warehouse, "applicable-policies")
        for page in self._connection.pages(_Applicable, where, query, parameter=CATALOG_PAGE):
            yield from page.applicable_policies

    def why(self, table: TableRef) -> Sequence[ApplicablePolicy]:
        """The maintenance policies that apply to a table. Requires access to its maintenance. Raises NoSuchTable."""
        where = "/lakebed/v1/tables" + path(*table, "policies")
        return self._connection.read(_Why, "GET", where).policies

    def versions(self, warehouse: str, namespace: Sequence[str], name: str) -> Iterator[PolicyVersion]:
        """The versions of a policy, newest first."""
        where = _policies(warehouse, namespace, name) + "/versions"
        for page in self._connection.pages(_Versions, where, parameter=CATALOG_PAGE):
            yield from page.versions

    def version(self, warehouse: str, namespace: Sequence[str], name: str, version: int) -> PastPolicy:
        """One version of a policy. Raises NoSuchPolicy."""
        where = _policies(warehouse, namespace, name) + path("versions", str(version))
        return self._connection.read(_Past, "GET", where).policy

    def targets(self, warehouse: str, namespace: Sequence[str], name: str) -> Iterator[AttachedTarget]:
        """The attachments of a policy."""
        for page in self._connection.pages(_Targets, _admin_path(warehouse, namespace, name) + "/targets"):
            yield from page.targets

    def effect(
        self, warehouse: str, namespace: Sequence[str], name: str, target: PolicyTarget, *, change: str = "attach"
    ) -> Iterator[AffectedTable]:
        """Preview attaching a policy, or with `change="detach"` detaching it: the tables and views that change."""
        query = {"change": change}
        if target.type == "namespace":
            query["namespace"] = joined(target.path)
        elif target.type == "table-like":
            query |= {"namespace": joined(target.path[:-1]), "target-name": target.path[-1]}
        for page in self._connection.pages(_Effects, _admin_path(warehouse, namespace, name) + "/effect", query):
            yield from page.affected

    def uncovered(
        self, warehouse: str, namespace: Sequence[str] = (), *, policy_type: str | None = None
    ) -> Iterator[TableRef]:
        """The tables of a warehouse or namespace to which no policy, or none of a type, applies."""
        query = {"warehouse": warehouse}
        if namespace:
            query["namespace"] = joined(namespace)
        if policy_type is not None:
            query["type"] = policy_type
        for page in self._connection.pages(_Uncovered, "/lakebed/v1/tables/without-policy", query):
            yield from (TableRef(warehouse, one.namespace, one.table) for one in page.tables)


def _admin_path(warehouse: str, namespace: Sequence[str], name: str) -> str:
    return "/lakebed/v1/policies" + path(warehouse, tuple(namespace), name)


def _policies(warehouse: str, namespace: Sequence[str], *name: str) -> str:
    return _BASE + path(warehouse, "namespaces", tuple(namespace), "policies", *name)


def _text(content: str | Mapping[str, object]) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()
