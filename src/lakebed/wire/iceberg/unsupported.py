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
    """An operation that is refused."""

    operation: str
    """Its id in the contract."""
    method: str
    path: str
    feature: str
    note: str = ""


_FUNCTIONS: Final = "/v1/{warehouse}/namespaces/{namespace}/functions"

UNSUPPORTED: Final = (
    Unsupported("listFunctions", "GET", _FUNCTIONS, "Functions", "views are supported"),
    Unsupported("loadFunction", "GET", f"{_FUNCTIONS}/{{function}}", "Functions", "views are supported"),
)


OF_FEDERATION: Final = (
    ("Connections to other than Iceberg REST catalogs (HADOOP, HIVE, BIGQUERY)", "ICEBERG_REST is served"),
    ("Connections that authenticate by IMPLICIT or GCP", "OAUTH, BEARER and SIGV4 are served"),
    ("Scan planning in a catalog that another is behind", "clients plan"),
    ("Remote signing in a catalog that another is behind", "keys are passed on to who may have them"),
    ("Policies, maintenance and extensions in a catalog that another is behind", "the other catalog has its own"),
)
"""Features that federated catalogs lack, with the alternative."""


def inventory() -> list[tuple[str, str, str]]:
    """Every unsupported operation, with its error and the alternative."""
    refusal = ERROR_MODELS[NotSupported]
    answer = f"{refusal.status} {refusal.type}"
    return [
        *((f"{one.feature} ({one.operation})", answer, one.note) for one in UNSUPPORTED),
        *((feature, answer, note) for feature, note in OF_FEDERATION),
    ]


def _refuse(one: Unsupported) -> Handler[IcebergServices]:
    async def refuse(services: IcebergServices, request: JsonRequest) -> Response:
        raise NotSupported(f"{one.feature} are not supported. operation={one.operation}")

    return refuse


# Not listed as endpoints in the configuration.
ROUTES = tuple(Route(one.operation, one.method, one.path, _refuse(one), is_standard=False) for one in UNSUPPORTED)
