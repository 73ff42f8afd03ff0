from __future__ import annotations

from lakebed.catalog.idempotency import LIFETIME_MS
from lakebed.wire.iceberg.operations import catalog_routes
from tests.wire.iceberg.lake import Lake


async def test_idempotency_lifetime_is_the_advertised_one(lake: Lake) -> None:
    document = (await lake.call("GET", "/config")).document
    assert document["idempotency-key-lifetime"] == f"PT{LIFETIME_MS // 3_600_000}H"


async def test_standard_endpoints_are_listed(lake: Lake) -> None:
    listed = (await lake.call("GET", "/config")).document["endpoints"]
    standard = {route.endpoint for route in catalog_routes().routes if route.is_standard}
    assert standard - set(listed) == {"GET /v1/config"}
    assert {"POST /v1/{prefix}/transactions/commit", "HEAD /v1/{prefix}/namespaces/{namespace}"} <= standard


async def test_configuration_of_a_warehouse_has_its_prefix(lake: Lake) -> None:
    document = (await lake.call("GET", "/config?warehouse=s3://lake/")).document
    assert document["overrides"] == {"namespace-separator": "%1F", "prefix": "lake"}
    assert document["defaults"]["warehouse-location"] == "s3://lake/"
