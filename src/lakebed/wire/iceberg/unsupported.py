"""Operations of the Iceberg specification that are not supported. Printed by `lakebed conform`."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.errors import NotSupported
from lakebed.wire.http.message import Response
from lakebed.wire.json.errors import ERROR_MODELS
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.routing import Handler, Route

from .services import IcebergServices


class Unsupported(NamedTuple):
    """An unsupported operation."""

    operation: str
    """The operation id in the specification."""
    method: str
    path: str
    feature: str
    note: str = ""


_FUNCTIONS: Final = "/v1/{warehouse}/namespaces/{namespace}/functions"

UNSUPPORTED: Final = (
    Unsupported("listFunctions", "GET", _FUNCTIONS, "Functions", "views are supported"),
    Unsupported("loadFunction", "GET", f"{_FUNCTIONS}/{{function}}", "Functions", "views are supported"),
)


UNSUPPORTED_IN_FEDERATION: Final = (
    ("Connections to HADOOP, HIVE and BIGQUERY catalogs", "ICEBERG_REST is supported"),
    ("Connections with IMPLICIT or GCP authentication", "OAUTH, BEARER and SIGV4 are supported"),
    ("Scan planning in a federated catalog", "clients plan scans"),
    ("Remote signing in a federated catalog", "vended credentials of the external catalog are forwarded"),
    ("Policies, maintenance and extensions in a federated catalog", "the external catalog has its own"),
)
"""Features that federated catalogs lack, with the alternative."""


def inventory() -> list[tuple[str, str, str]]:
    """Every unsupported operation, with its error and the alternative."""
    refusal = ERROR_MODELS[NotSupported]
    error = f"{refusal.status} {refusal.type}"
    return [
        *((f"{one.feature} ({one.operation})", error, one.note) for one in UNSUPPORTED),
        *((feature, error, note) for feature, note in UNSUPPORTED_IN_FEDERATION),
    ]


def _refuse(one: Unsupported) -> Handler[IcebergServices]:
    async def refuse(services: IcebergServices, request: JsonRequest) -> Response:
        raise NotSupported(f"{one.feature} are not supported. operation={one.operation}")

    return refuse


# Not listed as endpoints in the configuration.
ROUTES = tuple(Route(one.operation, one.method, one.path, _refuse(one), is_standard=False) for one in UNSUPPORTED)
