"""Which API serves a request, on the listener shared with S3 and on the separate catalog listener."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakebed.core.errors import InvalidName
from lakebed.server.http.api_paths import Api, ReservedNames, server_api_paths
from lakebed.server.http.dispatch import CatalogListenerChoice, ChooseApi, SharedListenerChoice, choose_api
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request

BEARER = {"authorization": "Bearer abc"}
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=K/20260101/us-east-1/s3/aws4_request, SignedHeaders=host"}
FOR_TABLES = {
    "authorization": "AWS4-HMAC-SHA256 Credential=K/20260101/us-east-1/s3tables/aws4_request, SignedHeaders=host"
}
BOTO = {**SIGNED, "x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": "AAAAAA=="}

SHARED = SharedListenerChoice(server_api_paths(), ("s3.example",))
APART = CatalogListenerChoice(server_api_paths())


def api_of(
    dispatch: ChooseApi, line: str, headers: Mapping[str, str] | None = None, *, host: str = "lake.example:9000"
) -> Api:
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    sent = {"host": host, **(headers or {})}
    return dispatch(Request(method, path, query, sent, RequestBody(0), "http", "127.0.0.1", "R1")).api


@pytest.mark.parametrize(
    ("line", "api"),
    [
        ("GET /health/live", Api.HEALTH),
        ("GET /health/ready", Api.HEALTH),
        ("HEAD /health/ready", Api.HEALTH),
        ("GET /metrics", Api.HEALTH),
        ("GET /iceberg/v1/config?warehouse=lake", Api.CATALOG),
        ("GET /_iceberg/v1/config", Api.CATALOG),
        ("GET /api/catalog/v1/config", Api.CATALOG),
        ("GET /v1/config", Api.CATALOG),
        ("POST /v1/lake/namespaces", Api.CATALOG),
        ("DELETE /v1/lake/namespaces/ns/tables/t?purgeRequested=true", Api.CATALOG),
        ("POST /iceberg/v1/lake/namespaces/ns/tables/t", Api.CATALOG),
        ("HEAD /iceberg/v1/lake/namespaces/ns/tables/t", Api.CATALOG),
        ("PUT /iceberg/v1/buckets/lake", Api.CATALOG),
        ("GET /polaris/v1/lake/applicable-policies", Api.CATALOG),
        ("GET /api/catalog/polaris/v1/lake/applicable-policies", Api.CATALOG),
        ("GET /api/management/v1/principals", Api.MANAGEMENT),
        ("GET /lakebed/v1/tasks", Api.ADMIN),
        ("POST /v1/oauth/tokens", Api.TOKENS),
        ("POST /iceberg/v1/oauth/tokens", Api.TOKENS),
        ("GET /.well-known/jwks.json", Api.TOKENS),
    ],
)
def test_routes_are_served_by_their_api_on_either_listener(line: str, api: Api) -> None:
    for headers in ({}, SIGNED, BEARER, FOR_TABLES):
        assert api_of(SHARED, line, headers) is api
        assert api_of(APART, line, headers) is api


@pytest.mark.parametrize(
    "line",
    [
        "GET /",
        "POST /",
        "GET /bucket/v1/config",
        "GET /iceberg",
        "GET /iceberg/?list-type=2",
        "PUT /iceberg",
        "GET /iceberg/v1",
        "PUT /iceberg/v1/data/part-0.parquet",
        "GET /iceberg/v1/data/part-0.parquet",
        "GET /iceberg/v2/config",
        "GET /iceberg//v1/config",
        "GET //iceberg/v1/config",
        "GET /api/catalog",
        "GET /api/data.json",
        "GET /polaris/x",
        "GET /lakebed/x",
        "GET /health",
        "GET /health/other",
        "GET /metricsx",
        "GET /console/x",
        "PUT /iceberg/v1/config",
        "DELETE /iceberg/v1/config",
        "HEAD /iceberg/v1/config",
        "PUT /health/live",
    ],
)
def test_paths_without_a_route_are_served_by_s3(line: str) -> None:
    assert api_of(SHARED, line) is Api.S3
    assert api_of(SHARED, line, SIGNED) is Api.S3


@pytest.mark.parametrize(
    ("line", "api"),
    [
        ("GET /iceberg/v1/none", Api.CATALOG),
        ("PUT /iceberg/v1/config", Api.CATALOG),
        ("DELETE /lakebed/v1/tasks/1", Api.ADMIN),
        ("PUT /health/live", Api.HEALTH),
        ("PUT /v1/oauth/tokens", Api.TOKENS),
        ("GET /iceberg/none", None),
        ("PUT /iceberg", None),
        ("PUT /metrics", None),
        ("DELETE /metrics/", None),
        ("GET /bucket/v1/config", None),
    ],
)
def test_api_answers_the_request_if_s3_has_no_such_bucket(line: str, api: Api | None) -> None:
    method, _, path = line.partition(" ")
    assert choose_api(server_api_paths(), method, path, "", SIGNED) == (Api.S3, api)
    assert choose_api(server_api_paths(), method, path, "", BOTO) == (Api.S3, None), (
        "S3 says that there is no such bucket"
    )


@pytest.mark.parametrize(
    "line", ["GET /v1/oauth/tokens", "PATCH /iceberg/v1/config", "OPTIONS /v1/config", "POST /health/live"]
)
def test_unsupported_methods_of_a_route_are_refused_by_its_api(line: str) -> None:
    assert api_of(SHARED, line, SIGNED) is not Api.S3
    assert api_of(SHARED, line, SIGNED) is api_of(APART, line, SIGNED)
    assert api_of(SHARED, "GET /v1/oauth/tokens") is Api.TOKENS


@pytest.mark.parametrize(
    "line",
    [
        "PUT /iceberg/v1/buckets/lake",
        "PUT /iceberg/v1/lake/namespaces/ns/tables/t/catalog/external",
        "GET /iceberg/v1/config",
        "DELETE /iceberg/v1/lake/namespaces/ns",
    ],
)
@pytest.mark.parametrize(
    "headers",
    [BOTO, {**SIGNED, "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, {"x-amz-copy-source": "/a/b"}],
    ids=["checksum", "streaming", "copy"],
)
def test_requests_with_s3_markers_are_served_by_s3(line: str, headers: Mapping[str, str]) -> None:
    assert api_of(SHARED, line, headers) is Api.S3


@pytest.mark.parametrize("query", ["uploads", "uploads=", "uploadId=u", "uploadId=u&partNumber=1", "x-id=PutObject"])
def test_multipart_requests_are_served_by_s3(query: str) -> None:
    assert api_of(SHARED, f"POST /iceberg/v1/lake/namespaces?{query}", SIGNED) is Api.S3


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/iceberg/v1/none", Api.CATALOG),
        ("/v1/lake/none", Api.CATALOG),
        ("/polaris/v1/none", Api.CATALOG),
        ("/api/management/v1/none", Api.MANAGEMENT),
        ("/lakebed/v1/none", Api.ADMIN),
        ("/iceberg/none", Api.S3),
        ("/bucket/key", Api.S3),
    ],
)
@pytest.mark.parametrize("headers", [BEARER, FOR_TABLES], ids=["bearer", "s3tables"])
def test_non_s3_clients_get_the_404_of_the_api(path: str, api: Api, headers: Mapping[str, str]) -> None:
    for method in ("GET", "PUT", "POST"):
        assert api_of(SHARED, f"{method} {path}", headers) is api


@pytest.mark.parametrize(
    "line", ["GET /v1/config", "GET /metrics", "GET /health/live", "GET /iceberg/v1/config", "POST /v1/oauth/tokens"]
)
def test_virtual_host_style_requests_are_served_by_s3(line: str) -> None:
    assert api_of(SHARED, line, host="bucket.s3.example") is Api.S3
    assert api_of(SHARED, line, host="bucket.s3.example:9000") is Api.S3
    assert api_of(SHARED, line, host="s3.example:9000") is not Api.S3


def test_separate_listener_answers_every_path() -> None:
    for line in ("GET /", "PUT /bucket/key", "GET /iceberg/v1/none", "GET /console/", "PUT /iceberg/v1/config"):
        assert api_of(APART, line, BOTO, host="bucket.s3.example") is Api.CATALOG
    assert api_of(APART, "GET /lakebed/v1/none") is Api.ADMIN
    assert api_of(APART, "POST /health/live") is Api.HEALTH


# -- reserved names --------------------------------------------------------------------------------------------------

RESERVED = ReservedNames(server_api_paths())


@pytest.mark.parametrize("name", ["metrics", "console"])
def test_bucket_name_that_is_a_route_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidName, match=rf"reserved: /{name} is a path of the server's own APIs; .*catalog_listen"):
        RESERVED.check_bucket(name)


@pytest.mark.parametrize("name", ["iceberg", "polaris", "api", "health", "lakebed", "v1", "metricsx", "config"])
def test_other_buckets_are_free(name: str) -> None:
    RESERVED.check_bucket(name)


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("iceberg", "v1/config"),
        ("iceberg", "v1/config/"),
        ("iceberg", "v1/any/namespaces"),
        ("iceberg", "v1/any/namespaces/ns/tables/t"),
        ("iceberg", "polaris/v1/any/applicable-policies"),
        ("iceberg", "v1/oauth/tokens"),
        ("polaris", "v1/any/namespaces/ns/policies"),
        ("api", "catalog/v1/config"),
        ("api", "management/v1/principals"),
        ("health", "live"),
        ("health", "ready"),
        ("lakebed", "v1/tasks"),
    ],
)
def test_key_whose_path_is_a_route_is_refused_with_the_reason(bucket: str, key: str) -> None:
    with pytest.raises(InvalidName, match=rf"reserved in this bucket: /{bucket}/{key} is a path of the server's own"):
        RESERVED.check_key(bucket, key)


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("iceberg", "v1"),
        ("iceberg", "v1/"),
        ("iceberg", "v1/data/part-0.parquet"),
        ("iceberg", "tables/t/metadata/00000-a.metadata.json"),
        ("iceberg", "/v1/config"),
        ("iceberg", "v1//namespaces"),
        ("health", "live/x"),
        ("health", "index.html"),
        ("api", "v1/config"),
        ("lake", "v1/config"),
        ("metrics", "x"),
    ],
)
def test_other_keys_are_free(bucket: str, key: str) -> None:
    RESERVED.check_key(bucket, key)


@pytest.mark.parametrize("bucket", ["iceberg", "polaris", "api", "health", "lakebed"])
def test_keys_unreachable_by_path_style_requests_are_the_reserved_ones(bucket: str) -> None:
    """Routing and reservation agree: a key that can be written is reachable with every object method."""
    for key in ("v1/config", "v1/a/namespaces", "live", "catalog/v1/config", "a", "v1/b/c/d/e/f/g", "v1/tasks/1"):
        hidden = any(
            api_of(SHARED, f"{line} /{bucket}/{key}", SIGNED) is not Api.S3 for line in ("GET", "HEAD", "PUT", "DELETE")
        )
        try:
            RESERVED.check_key(bucket, key)
        except InvalidName:
            continue
        assert not hidden, key
