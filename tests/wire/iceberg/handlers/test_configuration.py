from __future__ import annotations

from lakebed.catalog.idempotency import LIFETIME_MS
from lakebed.wire.iceberg.operations import catalog_routes
from tests.wire.iceberg.lake import Lake


async def test_answers_are_kept_for_as_long_as_is_advertised(lake: Lake) -> None:
    document = (await lake.call("GET", "/config")).document
    assert document["idempotency-key-lifetime"] == f"PT{LIFETIME_MS // 3_600_000}H"


async def test_endpoints_of_the_contract_are_listed_as_it_spells_them(lake: Lake) -> None:
    listed = (await lake.call("GET", "/config")).document["endpoints"]
    served = {route.endpoint for route in catalog_routes().routes if route.is_standard}
    assert served - set(listed) == {"GET /v1/config"}
    assert {"POST /v1/{prefix}/transactions/commit", "HEAD /v1/{prefix}/namespaces/{namespace}"} <= served


async def test_asked_for_a_warehouse_it_says_which_prefix_that_is(lake: Lake) -> None:
    document = (await lake.call("GET", "/config?warehouse=s3://lake/")).document
    assert document["overrides"] == {"namespace-separator": "%1F", "prefix": "lake"}
    assert document["defaults"]["warehouse-location"] == "s3://lake/"
