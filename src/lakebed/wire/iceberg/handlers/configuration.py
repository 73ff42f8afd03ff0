"""The configuration endpoint, which clients call first: defaults, overrides and endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from lakebed.catalog.catalogs.base_locations import BASE_LOCATION
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import CATALOG_BASES, Route

from ..services import IcebergServices

IDEMPOTENCY_LIFETIME: Final = "PT24H"
"""How long responses are kept by Idempotency-Key. Clients send keys only if the configuration has it."""

_ARN: Final = re.compile(r"arn:aws[\w-]*:s3tables:[^:]*:[^:]*:bucket/(?P<name>[^/]+)")


def configuration_route(endpoints: list[str]) -> Route[IcebergServices]:
    """The route of the configuration, which lists the given endpoints."""

    async def get_config(services: IcebergServices, request: JsonRequest) -> Response:
        pairs = [pair for pair in request.http.raw_query.split("&") if pair.partition("=")[0] == "warehouse"]
        if len(pairs) > 1:
            raise InvalidInput("warehouse is given more than once", argument="warehouse")
        warehouse = request.http.query.get("warehouse")
        defaults = {
            "lakebed.catalog-endpoint-prefix": f"{CATALOG_BASES[0]}/v1",
            "lakebed.catalog-compat-endpoint-prefix": f"{CATALOG_BASES[1]}/v1",
        }
        overrides = {"namespace-separator": "%1F"}
        if warehouse is not None:
            catalog = await services.catalogs.enter(request.caller, catalog_name(warehouse))
            if not catalog.is_table_bucket:
                # As in Polaris. Table buckets have never returned their properties here.
                defaults = {**catalog.properties, BASE_LOCATION: catalog.base_location, **defaults}
            defaults["lakebed.access-delegation"] = await services.access.allowed(catalog)
            defaults["warehouse-location"] = catalog.base_location
            # Clients insert it into paths without encoding it.
            overrides["prefix"] = quote(catalog.name, safe="")
        return ok(
            {
                "defaults": defaults,
                "overrides": overrides,
                "endpoints": endpoints,
                "idempotency-key-lifetime": IDEMPOTENCY_LIFETIME,
            }
        )

    return Route("getConfig", "GET", "/v1/config", get_config)


def catalog_name(warehouse: str) -> str:
    """The name of the catalog that `warehouse` identifies: by name, ARN, or location of a table bucket.

    Raises InvalidInput.
    """
    arn = _ARN.fullmatch(warehouse)
    if arn is not None:
        return arn["name"]
    name = warehouse.removeprefix("s3://").removeprefix("s3a://").rstrip("/")
    if not name or "/" in name:
        raise InvalidInput(
            "warehouse must be the name of a catalog or table bucket, its location s3://NAME/ or its ARN",
            argument="warehouse",
            value=warehouse,
        )
    return name


def standard_endpoints(routes: Iterable[Route[IcebergServices]]) -> list[str]:
    """The supported endpoints of the specification, in its spelling."""
    return [route.endpoint for route in routes if route.is_standard]
