from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from lakebed.catalog.external.bridges.model import BridgeConfig, ExternalCatalogKind
from lakebed.catalog.external.bridges.rest_catalog import RestCatalogTable
from lakebed.catalog.external.remote.client import RemoteCatalogs
from lakebed.catalog.external.remote.model import AuthKind, RemoteAuth, RemoteSecrets
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, InvalidInput, LakebedError, NotFound, Throttled, Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.hosts import AllowedHosts
from lakebed.net.sync_client import threaded_http
from tests.clients.boto import Keys
from tests.clients.signing import EMPTY_SHA256, Signer
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server

LOCATION = "s3://lake/t/metadata/2.metadata.json"
TABLE = {
    "metadata-location": LOCATION,
    "metadata": {
        "table-uuid": "u",
        "format-version": 2,
        "metadata-log": [{"metadata-file": "s3://lake/t/metadata/1.metadata.json", "timestamp-ms": 1}],
    },
    "config": {"s3.access-key-id": "theirs"},
}


def catalog_at(url: str, secrets: RemoteSecrets | None = None, **changes: Any) -> RestCatalogTable:
    config = BridgeConfig(
        catalog=ExternalCatalogKind.REST, external_namespace=("a", "b"), external_table="t x", uri=f"{url}/iceberg/"
    )
    config = msgspec.structs.replace(config, **changes)
    return RestCatalogTable(
        RemoteCatalogs(threaded_http(), ManualClock(), AllowedHosts(["*"], setting="federation.hosts")),
        config,
        secrets or RemoteSecrets(),
    )


def answering(
    config: dict[str, Any] | None = None, table: ScriptedResponse | None = None
) -> Callable[[ScriptedRequest], ScriptedResponse]:
    def script(request: ScriptedRequest) -> ScriptedResponse:
        if "/v1/config" in request.path:
            return ScriptedResponse(200, json.dumps(config or {}).encode())
        return table or ScriptedResponse(200, json.dumps(TABLE).encode())

    return script


async def test_table_is_requested_by_the_published_configuration() -> None:
    config = {"defaults": {"prefix": "p1"}, "overrides": {"prefix": "wh/1", "namespace-separator": "%2E"}}
    with scripted_server(answering(config)) as server:
        found = await catalog_at(server.url, warehouse="s3://lake/").current()
    assert found.metadata_at == LOCATION
    assert found.uuid == "u"
    assert list(found.log) == ["s3://lake/t/metadata/1.metadata.json"]
    assert [request.path for request in server.requests] == [
        "/iceberg/v1/config?warehouse=s3%3A%2F%2Flake%2F",
        "/iceberg/v1/wh/1/namespaces/a.b/tables/t%20x?snapshots=refs",
    ]
    assert all("authorization" not in request.headers for request in server.requests)


async def test_namespace_levels_are_joined_by_the_published_separator() -> None:
    with scripted_server(answering()) as server:
        await catalog_at(server.url).current()
    assert [request.path for request in server.requests] == [
        "/iceberg/v1/config",
        "/iceberg/v1/namespaces/a%1Fb/tables/t%20x?snapshots=refs",
    ]


async def test_bearer_token_is_sent() -> None:
    with scripted_server(answering()) as server:
        secrets = RemoteSecrets(token=Secret("t0k3n"))
        await catalog_at(server.url, secrets, auth=RemoteAuth(kind=AuthKind.BEARER)).current()
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer t0k3n"}


async def test_requests_are_signed() -> None:
    auth = RemoteAuth(kind=AuthKind.SIGV4, access_key_id="AKID", region="us-east-1", service="s3")
    with scripted_server(answering()) as server:
        secrets = RemoteSecrets(secret_access_key=Secret("secret"), session_token=Secret("session"))
        await catalog_at(server.url, secrets, auth=auth).current()
    for request in server.requests:
        stamp = request.headers["x-amz-date"]
        signed = {"accept": request.headers["accept"]}
        signer = Signer(Keys("AKID", "secret", "session"), at=_moment(stamp))
        wanted = signer.headers("GET", f"{server.url}{request.path}", EMPTY_SHA256, signed)
        assert request.headers["authorization"] == wanted["Authorization"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ScriptedResponse(401), AccessDenied),
        (ScriptedResponse(403, b'{"error": {"type": "ForbiddenException", "message": "s3cret"}}'), AccessDenied),
        (ScriptedResponse(404, b'{"error": {"type": "NoSuchTableException"}}'), NotFound),
        (ScriptedResponse(429), Throttled),
        (ScriptedResponse(503), Unavailable),
        (ScriptedResponse(400), InvalidInput),
        (ScriptedResponse(302, headers={"location": "http://169.254.169.254/"}), InvalidInput),
        (ScriptedResponse(200, b"not json"), InvalidInput),
        (ScriptedResponse(200, b'{"metadata": {}}'), InvalidInput),
        (ScriptedResponse(200, b'{"metadata": 7, "metadata-location": "x"}'), InvalidInput),
        (ScriptedResponse(200, b"{}", claimed_length=100), Unavailable),
    ],
)
async def test_errors_are_reported_by_type_only(answer: ScriptedResponse, error: type[LakebedError]) -> None:
    with scripted_server(answering(table=answer)) as server:
        with pytest.raises(error) as refused:
            await catalog_at(server.url).current()
        assert "s3cret" not in str(refused.value)
    assert all("169.254" not in request.path for request in server.requests)


async def test_failed_request_is_retried_once() -> None:
    failures = iter([ScriptedResponse(503)])

    def script(request: ScriptedRequest) -> ScriptedResponse:
        if "/tables/" in request.path:
            return next(failures, ScriptedResponse(200, json.dumps(TABLE).encode()))
        return ScriptedResponse(200, b"{}")

    with scripted_server(script) as server:
        assert (await catalog_at(server.url).current()).metadata_at == LOCATION


async def test_unreachable_catalog_is_unavailable() -> None:
    with scripted_server(answering()) as server:
        gone = server.url
    with pytest.raises(Unavailable):
        await catalog_at(gone).current()


async def test_large_metadata_is_read_completely() -> None:
    padded = {**TABLE, "padding": "x" * (2 * 1024 * 1024)}
    with scripted_server(answering(table=ScriptedResponse(200, json.dumps(padded).encode()))) as server:
        assert (await catalog_at(server.url).current()).metadata_at == LOCATION


def _moment(stamp: str) -> datetime:
    return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
