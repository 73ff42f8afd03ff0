"""What of the contract this build leaves out, and the answer to who asks for it. Printed by `lakebed conform`."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.errors import NotSupported
from lakebed.wire.http.message import Response

from .errors import CATALOG_ERRORS
from .request import CatalogRequest
from .routes import Handler, Route
from .services import CatalogServices


class Unsupported(NamedTuple):
    """An operation of the contract that is answered with an error."""

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


def inventory() -> list[tuple[str, str, str]]:
    """Every operation left out: what it is, how it is answered, and what there is instead."""
    refusal = CATALOG_ERRORS[NotSupported]
    return [(f"{one.feature} ({one.operation})", f"{refusal.status} {refusal.type}", one.note) for one in UNSUPPORTED]


def _refuse(one: Unsupported) -> Handler:
    async def refuse(services: CatalogServices, request: CatalogRequest) -> Response:
        raise NotSupported(f"{one.feature} are not supported. operation={one.operation}")

    return refuse


# Not among the endpoints that the configuration lists: clients that look there do not ask.
ROUTES = tuple(Route(one.operation, one.method, one.path, _refuse(one), is_standard=False) for one in UNSUPPORTED)
