"""Table buckets: enable, get, list, and update properties."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.model import Catalog
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok, page_response
from lakebed.wire.json.routing import CATALOG_BASES, Route
from lakebed.wire.json.table_access import allowed_delegation

from ..services import IcebergServices


class BucketPropertyChanges(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change of properties."""

    removals: list[str] = []
    updates: dict[str, str] = {}


async def enable_table_bucket(services: IcebergServices, request: JsonRequest) -> Response:
    """Make an existing bucket a table bucket. Idempotent."""
    await check_no_fields(request)
    return ok(_bucket_document(services, await services.catalogs.enable(request.caller, request.catalog)))


async def get_table_bucket(services: IcebergServices, request: JsonRequest) -> Response:
    """Get a table bucket."""
    return ok(_bucket_document(services, await services.catalogs.get(request.caller, request.catalog)))


async def list_table_buckets(services: IcebergServices, request: JsonRequest) -> Response:
    """List the table buckets that the caller can see."""
    page = read_page(request.http, "table-buckets")
    found = await services.catalogs.list(request.caller, after=page.after, limit=page.limit)
    buckets = [_bucket_document(services, catalog) for catalog in found.items]
    return page_response(page, {"table-buckets": buckets}, found.items[-1].name if found.truncated else None)


async def update_table_bucket(services: IcebergServices, request: JsonRequest) -> Response:
    """Set and remove properties of a table bucket."""
    document = await request.document(BucketPropertyChanges)
    changed = await services.catalogs.set_properties(
        request.caller, request.catalog, updates=document.updates, removals=document.removals
    )
    return ok(_bucket_document(services, changed))


def _bucket_document(services: IcebergServices, catalog: Catalog) -> dict[str, Any]:
    name = catalog.name
    return {
        "table-bucket": name,
        "enabled": True,
        "catalog-type": "iceberg-rest",
        "warehouse": name,
        "warehouse-location": catalog.base_location,
        "catalog-uri": f"{CATALOG_BASES[0]}/v1/{name}",
        "compat-catalog-uri": f"{CATALOG_BASES[1]}/v1/{name}",
        "credential-vending": "supported"
        if allowed_delegation(services.access.of_server, catalog).vends
        else "disabled",
        "credential-scope": "table-prefix",
        "credential-scope-prefix": catalog.base_location,
        "catalog-entry-present": True,
        "properties": catalog.properties,
    }


_ALL = "/v1/buckets"
_ONE = "/v1/buckets/{warehouse}"

ROUTES = (
    Route("listTableBuckets", "GET", _ALL, list_table_buckets, is_standard=False),
    Route("enableTableBucket", "PUT", _ONE, enable_table_bucket, is_standard=False),
    Route("getTableBucket", "GET", _ONE, get_table_bucket, is_standard=False),
    Route("updateTableBucket", "POST", _ONE + "/properties", update_table_bucket, is_standard=False),
)
