"""Conformance of a running server to the OpenAPI specifications of policies and generic tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import quote

from tests.wire.iceberg.contract import Contract, Json, parse_document, read_document
from tests.wire.iceberg.lake import SCHEMA

COMPACTION: Final = {"type": "system.data-compaction", "content": '{"enable": true}'}
EXPIRY: Final = {"type": "system.snapshot-expiry", "content": '{"enable": true}'}
TARGET: Final = {"type": "namespace", "path": ["ns"]}

_SHARED: Final = "../iceberg-rest-catalog-open-api.yaml"


def part_document(folder: Path, part: str) -> Json:
    """A specification merged with the parts that it references in the catalog's specification."""
    shared = read_document(folder / "iceberg-rest-catalog-open-api.yaml")
    text = (folder / "polaris-catalog-apis" / part).read_text()
    own = parse_document(text.replace(f"{_SHARED}#", "#"))
    for kind, parts in own["components"].items():
        shared["components"].setdefault(kind, {}).update(parts)
    return shared | {"paths": own["paths"]}


class PolicyContract(Contract):
    """The specification of policies."""

    names: ClassVar[Mapping[str, str]] = {"prefix": "lake", "namespace": "ns", "policy-name": "p"}
    names_of: ClassVar[Mapping[str, Mapping[str, str]]] = {"detachPolicy": {**names, "policy-name": "attached"}}
    good: ClassVar[Mapping[str, Json]] = {
        "createPolicy": {"name": "made", **COMPACTION},
        "updatePolicy": {"content": '{"enable": false}', "current-policy-version": 0},
        "attachPolicy": {"target": TARGET, "parameters": {"a": "1"}},
        "detachPolicy": {"target": TARGET},
    }
    plain_queries: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "listPolicies": {"policyType": COMPACTION["type"], "pageToken": "", "pageSize": "1"},
        "getApplicablePolicies": {"namespace": "ns", "pageToken": "", "pageSize": "1"},
        "dropPolicy": {"detach-all": "true"},
    }

    def restore(self) -> None:
        """Recreate all policies."""
        created = self.session.post(f"{self.base}/v1/lake/namespaces", json={"namespace": ["ns"]})
        assert created.status_code in (200, 409)
        path = f"{self.base}/polaris/v1/lake/namespaces/ns/policies"
        for name in ("made", "p", "attached"):
            assert self.session.delete(f"{path}/{name}?detach-all=true").status_code in (204, 404)
        for policy in ({"name": "p", **COMPACTION}, {"name": "attached", **EXPIRY}):
            assert self.session.post(path, json=policy).status_code == 200
        for target in (TARGET, {"type": "catalog"}):
            assert self.session.put(f"{path}/attached/mappings", json={"target": target}).status_code == 204


class GenericTableContract(Contract):
    """The specification of generic tables."""

    names: ClassVar[Mapping[str, str]] = {"prefix": "lake", "namespace": "ns", "generic-table": "g"}
    names_of: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    good: ClassVar[Mapping[str, Json]] = {
        "createGenericTable": {"name": "made", "format": "delta", "base-location": "s3://lake/made"},
    }
    plain_queries: ClassVar[Mapping[str, Mapping[str, str]]] = {"listGenericTables": {"pageToken": "", "pageSize": "1"}}

    def restore(self) -> None:
        """Recreate all generic tables, and a table."""
        lake = f"{self.base}/v1/lake/namespaces"
        assert self.session.post(lake, json={"namespace": ["ns"]}).status_code in (200, 409)
        assert self.session.post(f"{lake}/ns/tables", json={"name": "t", "schema": SCHEMA}).status_code in (200, 409)
        path = f"{self.base}/polaris/v1/lake/namespaces/ns/generic-tables"
        for name in [one["name"] for one in self.session.get(path).json()["identifiers"]]:
            assert self.session.delete(f"{path}/{quote(name, safe='')}").status_code == 204
        made: Json = {"name": "g", "format": "delta", "base-location": "s3://lake/g", "properties": {"a": "1"}}
        assert self.session.post(path, json=made).status_code == 200
