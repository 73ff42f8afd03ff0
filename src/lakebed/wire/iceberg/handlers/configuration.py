"""What a client asks first: how the catalog wants to be spoken to."""

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
from lakebed.wire.json.table_access import allowed_delegation

from ..services import IcebergServices

IDEMPOTENCY_LIFETIME: Final = "PT24H"
"""How long answers are kept under their Idempotency-Key; saying so makes clients send keys."""

_ARN: Final = re.compile(r"arn:aws[\w-]*:s3tables:[^:]*:[^:]*:bucket/(?P<name>[^/]+)")


def configuration_route(endpoints: list[str]) -> Route[IcebergServices]:
    """The route of the configuration, which lists the endpoints of the others."""

    async def get_config(services: IcebergServices, request: JsonRequest) -> Response:
        raw = [pair for pair in request.http.raw_query.split("&") if pair.partition("=")[0] == "warehouse"]
        if len(raw) > 1:
            raise InvalidInput("warehouse is given more than once", argument="warehouse")
        stated = request.http.query.get("warehouse")
        defaults = {
            "lakebed.catalog-endpoint-prefix": f"{CATALOG_BASES[0]}/v1",
            "lakebed.catalog-compat-endpoint-prefix": f"{CATALOG_BASES[1]}/v1",
        }
        overrides = {"namespace-separator": "%1F"}
        if stated is not None:
            catalog = await services.catalogs.enter(request.caller, catalog_name(stated))
            if not catalog.is_table_bucket:
                # As the contract of catalogs has it; those that a bucket came with have never told theirs here.
                defaults = {**catalog.properties, BASE_LOCATION: catalog.base_location, **defaults}
            defaults["lakebed.access-delegation"] = allowed_delegation(services.access_delegation, catalog)
            defaults["warehouse-location"] = catalog.base_location
            # Clients put it into their paths as it is.
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


def catalog_name(stated: str) -> str:
    """The catalog that a client's `catalog` names: by name or ARN, a table bucket by its location too.

    Raises InvalidInput.
    """
    arn = _ARN.fullmatch(stated)
    if arn is not None:
        return arn["name"]
    name = stated.removeprefix("s3://").removeprefix("s3a://").rstrip("/")
    if not name or "/" in name:
        raise InvalidInput(
            "warehouse is the name of a table bucket or catalog, the bucket's location s3://NAME/ or an ARN",
            argument="warehouse",
            value=stated,
        )
    return name


def standard_endpoints(routes: Iterable[Route[IcebergServices]]) -> list[str]:
    """The endpoints of the contract that are served, spelled as it spells them."""
    return [route.endpoint for route in routes if route.is_standard]
