"""Conformance of a running server to the OpenAPI specification of the management API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final
from urllib.parse import quote

from schemathesis import CheckContext, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fixtures.server import RunningServer
from tests.wire.iceberg.contract import AnyCase, Check, Contract, Json
from tests.wire.iceberg.lake import SCHEMA

_VERSION: Final = {"currentEntityVersion": 1, "properties": {"a": "b"}}
_GRANT: Final = {"grant": {"type": "table", "namespace": ["ns"], "tableName": "t", "privilege": "TABLE_READ_DATA"}}


def _catalog(name: str) -> Json:
    return {
        "catalog": {
            "type": "INTERNAL",
            "name": name,
            "properties": {"default-base-location": f"s3://pond/{name}"},
            "storageConfigInfo": {"storageType": "S3", "allowedLocations": [f"s3://pond/{name}/"]},
        }
    }


class ManagementContract(Contract):
    """The specification of principals, roles and grants."""

    names: ClassVar[Mapping[str, str]] = {
        "catalogName": "lake",
        "principalName": "ann",
        "principalRoleName": "engineer",
        "catalogRoleName": "reader",
    }
    names_of: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "updateCatalog": {"catalogName": "spare"},
        "deleteCatalog": {"catalogName": "spare"},
    }
    good: ClassVar[Mapping[str, Json]] = {
        "createCatalog": _catalog("made"),
        "updateCatalog": _VERSION,
        "createPrincipal": {"principal": {"name": "made"}},
        "updatePrincipal": _VERSION,
        "assignPrincipalRole": {"principalRole": {"name": "engineer"}},
        "createPrincipalRole": {"principalRole": {"name": "made"}},
        "updatePrincipalRole": _VERSION,
        "assignCatalogRoleToPrincipalRole": {"catalogRole": {"name": "reader"}},
        "createCatalogRole": {"catalogRole": {"name": "made"}},
        "updateCatalogRole": _VERSION,
        "addGrantToCatalogRole": _GRANT,
        "revokeGrantFromCatalogRole": _GRANT,
    }

    def __init__(self, document: Json, server: RunningServer) -> None:
        super().__init__(document, server)
        self._catalog = self.base
        assert self.session.put(f"{server.endpoint}/pond").status_code == 200
        self.base = f"{server.endpoint}/api/management/v1"

    def checks(self) -> Sequence[Check]:
        """All checks except headers, which the specification does not describe."""
        return (not_a_server_error, documented_status, content_type_conformance, response_schema_conformance)

    def restore(self) -> None:
        """Recreate all principals, roles and catalogs."""
        lake = f"{self._catalog}/v1/lake/namespaces"
        assert self.session.post(lake, json={"namespace": ["ns"]}).status_code in (200, 409)
        assert self.session.post(f"{lake}/ns/tables", json={"name": "t", "schema": SCHEMA}).status_code in (200, 409)
        roles = f"{self.base}/catalogs/lake/catalog-roles"
        # Generated catalogs, whatever their name, occupy the location of the next one.
        for found in self.session.get(f"{self.base}/catalogs").json()["catalogs"]:
            if found["name"] != "lake":
                address = f"{self.base}/catalogs/{quote(found['name'], safe='')}"
                assert self.session.delete(address).status_code == 204
        for kind, names in (("principals", ("ann", "made")), ("principal-roles", ("engineer", "made"))):
            for name in names:
                assert self.session.delete(f"{self.base}/{kind}/{name}").status_code in (204, 404)
        for name in ("reader", "made"):
            assert self.session.delete(f"{roles}/{name}").status_code in (204, 404)
        for method, address, body in (
            ("POST", f"{self.base}/catalogs", _catalog("spare")),
            ("POST", f"{self.base}/principals", {"principal": {"name": "ann"}}),
            ("POST", f"{self.base}/principal-roles", {"principalRole": {"name": "engineer"}}),
            ("POST", roles, {"catalogRole": {"name": "reader"}}),
            ("PUT", f"{self.base}/principals/ann/principal-roles", {"principalRole": {"name": "engineer"}}),
            ("PUT", f"{self.base}/principal-roles/engineer/catalog-roles/lake", {"catalogRole": {"name": "reader"}}),
            ("PUT", f"{roles}/reader/grants", _GRANT),
        ):
            assert self.session.request(method, address, json=body).status_code == 201


def documented_status(ctx: CheckContext, response: Response, case: AnyCase) -> bool | None:
    """The status is in the specification, or a client error that the specification omits, in the common format."""
    if response.status_code in (400, 404, 406, 409):
        error = response.json()["error"]
        assert error["code"] == response.status_code
        assert error["type"]
        assert error["message"]
        return None
    return status_code_conformance(ctx, response, case)
