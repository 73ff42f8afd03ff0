from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakebed.catalog.external.remote.client import (
    CONFIG_LIFETIME_MS,
    DEFAULT_ENDPOINTS,
    RemoteCatalog,
    RemoteCatalogs,
    RemoteRequest,
    catalog_http,
)
from lakebed.catalog.external.remote.model import AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets
from lakebed.core.clock import ManualClock
from lakebed.core.errors import ExternalCatalogError, InvalidInput, InvalidName, LakebedError, Throttled, Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import HttpRequest, HttpResponse

ANY = AllowedHosts(["*"], setting="federation.hosts")
OAUTH = RemoteAuth(kind=AuthKind.OAUTH, client_id="me", scopes=("a", "b"))
SECRET = RemoteSecrets(client_secret=Secret("s3cret"))
READ = RemoteRequest("GET", ("namespaces",))
CHANGE = RemoteRequest("POST", ("namespaces",), body=b"{}")

Script = Callable[[HttpRequest], HttpResponse]


@dataclass
class Other:
    """An `Http` that responds as an external catalog: it issues tokens, and responds as a test sets it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    answer: Script = lambda request: HttpResponse(200, b"{}")
    token: Script | None = None
    lifetime: int = 3600
    requests: list[HttpRequest] = field(default_factory=list)
    tokens: int = 0

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0)
        if request.url.endswith("/tokens"):
            self.tokens += 1
            if self.token is not None:
                return self.token(request)
            form = parse_qs(request.body.decode())
            assert form == {
                "grant_type": ["client_credentials"],
                "client_id": ["me"],
                "client_secret": ["s3cret"],
                "scope": ["a b"],
            }
            given = {"access_token": f"token-{self.tokens}", "token_type": "bearer", "expires_in": self.lifetime}
            return HttpResponse(200, json.dumps(given).encode())
        if urlsplit(request.url).path.endswith("/v1/config"):
            return HttpResponse(200, json.dumps(self.config).encode())
        self.requests.append(request)
        return self.answer(request)


def catalog(
    other: Other, clock: ManualClock | None = None, auth: RemoteAuth = OAUTH, secrets: RemoteSecrets = SECRET
) -> RemoteCatalog:
    address = RemoteAddress("https://far.example/base/", "wh")
    return RemoteCatalogs(other, clock or ManualClock(), ANY).open(address, auth, secrets)


async def test_requests_follow_the_published_configuration() -> None:
    other = Other({"defaults": {"prefix": "p"}, "overrides": {"prefix": "a/b", "namespace-separator": "%2E"}})
    remote = catalog(other)
    request = RemoteRequest("POST", ("namespaces", await remote.namespace(("x", "y")), "t able"), {"k": "v w"}, b"{}")
    await remote.send(request)
    assert other.requests[0].url == "https://far.example/base/v1/a/b/namespaces/x.y/t%20able?k=v%20w"
    assert other.requests[0].headers["authorization"] == "Bearer token-1"
    assert other.requests[0].headers["content-type"] == "application/json"


async def test_endpoints_are_the_published_ones_or_the_defaults() -> None:
    assert (await catalog(Other()).config()).endpoints == DEFAULT_ENDPOINTS
    assert (await catalog(Other({"endpoints": ["GET  /v1/x"]})).config()).endpoints == {"GET /v1/x"}
    assert (await catalog(Other({"endpoints": []})).config()).endpoints == frozenset()


async def test_configuration_is_refreshed_when_it_expires() -> None:
    clock, other = ManualClock(), Other({"overrides": {"prefix": "one"}})
    remote = catalog(other, clock)
    assert (await remote.config()).prefix == "one"
    other.config = {"overrides": {"prefix": "two"}}
    assert (await remote.config()).prefix == "one"
    clock.advance(CONFIG_LIFETIME_MS / 1000)
    assert (await remote.config()).prefix == "two"


async def test_level_with_the_separator_is_rejected() -> None:
    with pytest.raises(InvalidName):
        await catalog(Other({"overrides": {"namespace-separator": "."}})).namespace(("a.b",))


async def test_token_is_shared_until_shortly_before_it_expires() -> None:
    clock, other = ManualClock(), Other()
    remote = catalog(other, clock)
    await asyncio.gather(*(remote.send(READ) for _ in range(5)))
    assert other.tokens == 1
    clock.advance(3600 - 31)
    await remote.send(READ)
    assert other.tokens == 1
    clock.advance(2)
    await remote.send(READ)
    assert other.tokens == 2
    assert other.requests[-1].headers["authorization"] == "Bearer token-2"


@pytest.mark.parametrize("request_", [READ, CHANGE])
async def test_rejected_token_is_replaced_once(request_: RemoteRequest) -> None:
    other = Other()
    other.answer = lambda request: HttpResponse(
        401 if request.headers["authorization"] == "Bearer token-1" else 200, b"{}"
    )
    assert (await catalog(other).send(request_)).status == 200
    assert len(other.requests) == 2
    other.answer = lambda request: HttpResponse(401, b"{}")
    other.requests.clear()
    assert (await catalog(other).send(request_)).status == 401
    assert len(other.requests) == 2


async def test_rejected_bearer_token_is_not_sent_again() -> None:
    other = Other(answer=lambda request: HttpResponse(401, b"{}"))
    remote = catalog(other, auth=RemoteAuth(kind=AuthKind.BEARER), secrets=RemoteSecrets(token=Secret("t")))
    assert (await remote.send(READ)).status == 401
    assert [request.headers["authorization"] for request in other.requests] == ["Bearer t"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (HttpResponse(400, b'{"error": "invalid_client", "error_description": "s3cret"}'), ExternalCatalogError),
        (HttpResponse(401, b'{"error": {"message": "s3cret"}}'), ExternalCatalogError),
        (HttpResponse(200, b"{}"), ExternalCatalogError),
        (HttpResponse(200, b"not json"), ExternalCatalogError),
        (HttpResponse(200, b'{"access_token": "a\\nb"}'), ExternalCatalogError),
        (HttpResponse(200, b'{"access_token": ""}'), ExternalCatalogError),
        (HttpResponse(302, b""), ExternalCatalogError),
        (HttpResponse(429, b""), Throttled),
        (HttpResponse(503, b""), Unavailable),
    ],
)
async def test_no_request_is_sent_without_a_token(answer: HttpResponse, error: type[LakebedError]) -> None:
    other = Other(token=lambda request: answer)
    with pytest.raises(error) as refused:
        await catalog(other).send(CHANGE)
    assert "s3cret" not in str(refused.value)
    assert not getattr(refused.value, "undecided", False)
    assert other.requests == []


async def test_token_without_expires_in_is_used() -> None:
    other = Other(token=lambda request: HttpResponse(200, b'{"access_token": "t"}'))
    await catalog(other).send(READ)
    assert other.requests[0].headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(("request_", "times"), [(READ, 2), (CHANGE, 1)])
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_reads_are_retried_and_changes_are_not(request_: RemoteRequest, times: int, status: int) -> None:
    other = Other(answer=lambda request: HttpResponse(status, b"{}"))
    assert (await catalog(other).send(request_)).status == status
    assert len(other.requests) == times


@pytest.mark.parametrize(("request_", "times"), [(READ, 2), (CHANGE, 1)])
async def test_missing_response_to_a_change_is_undecided(request_: RemoteRequest, times: int) -> None:
    def silent(request: HttpRequest) -> HttpResponse:
        raise Unavailable("no answer", undecided=request.method == "POST")

    other = Other(answer=silent)
    with pytest.raises(Unavailable) as lost:
        await catalog(other).send(request_)
    assert lost.value.undecided is (request_ is CHANGE)
    assert len(other.requests) == times
    assert "far.example" in str(lost.value)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, ExternalCatalogError), (403, ExternalCatalogError), (404, ExternalCatalogError), (503, Unavailable)],
)
async def test_refused_configuration_is_a_fault_of_the_connection(status: int, error: type[LakebedError]) -> None:
    async def http(request: HttpRequest) -> HttpResponse:
        return HttpResponse(status, b'{"error": {"message": "its words", "type": "X"}}')

    address = RemoteAddress("https://far.example")
    remote = RemoteCatalogs(http, ManualClock(), ANY).open(address, RemoteAuth(), RemoteSecrets())
    with pytest.raises(error) as refused:
        await remote.send(READ)
    assert type(refused.value) is error


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"overrides": 7}', b"", b'{"endpoints": "x"}'])
async def test_invalid_configuration_is_a_fault_of_the_connection(body: bytes) -> None:
    async def http(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, body)

    remote = RemoteCatalogs(http, ManualClock(), ANY).open(RemoteAddress("https://x"), RemoteAuth(), RemoteSecrets())
    with pytest.raises(ExternalCatalogError):
        await remote.config()


@pytest.mark.parametrize(
    ("hosts", "auth"),
    [
        ([], RemoteAuth()),
        (["near.example"], RemoteAuth()),
        (["far.example"], RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="https://idp.example/tokens")),
    ],
)
async def test_host_that_is_not_allowed_gets_no_requests(hosts: list[str], auth: RemoteAuth) -> None:
    other = Other({})
    secrets = SECRET if auth.kind is AuthKind.OAUTH else RemoteSecrets()
    with pytest.raises(ExternalCatalogError, match=r"federation\.hosts"):
        RemoteCatalogs(other, ManualClock(), AllowedHosts(hosts, setting="federation.hosts")).open(
            RemoteAddress("https://far.example"), auth, secrets
        )
    assert not other.requests
    assert not other.tokens


async def test_name_that_leads_to_a_link_local_address_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    async def connect(_: object, host: str, *__: object, **___: object) -> None:
        reached.append(host)
        raise ConnectionRefusedError

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", resolve, raising=False)
    monkeypatch.setattr(loop, "create_connection", connect, raising=False)
    http = catalog_http()
    with pytest.raises(Unavailable):
        await http(HttpRequest("GET", "http://innocent.example/"))
    assert reached == []
    with pytest.raises(Unavailable):
        await http(HttpRequest("GET", "http://169.254.169.254/"))
    assert reached == ["169.254.169.254"]
    await http.close()


ADDRESS = RemoteAddress("https://far.example")


def allowing(*hosts: str) -> RemoteCatalogs:
    return RemoteCatalogs(Other(), ManualClock(), AllowedHosts(hosts, setting="federation.hosts"))


@pytest.mark.parametrize("token_uri", ["", "https://far.example:8443/tokens"])
def test_token_endpoint_on_the_host_of_the_catalog_is_allowed(token_uri: str) -> None:
    auth = RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri=token_uri)
    allowing("far.example").check_hosts(ADDRESS, auth)


def test_token_endpoint_on_another_host_must_be_allowed_too() -> None:
    auth = RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="https://idp.example/tokens")
    with pytest.raises(InvalidInput, match=r"host=idp\.example:443") as refused:
        allowing("far.example").check_hosts(ADDRESS, auth)
    assert refused.value.argument == "token-uri"
    allowing("far.example", "idp.example").check_hosts(ADDRESS, auth)
