from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.client.access import ServerAccess
from lakebed.client.connection import ATTEMPTS, ServerConnection
from lakebed.core.errors import InvalidInput, InvalidSetting, StorageFull, Unavailable
from lakebed.core.secrets import Secret
from tests.clients.tls import make_certificate, running_tls_server
from tests.fixtures.ports import free_port
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, ScriptedServer, scripted_server
from tests.fixtures.server import RunningServer

OK = ScriptedResponse(200, b'{"n": 1}')
BUSY = ScriptedResponse(503, b'{"error": {"message": "busy", "type": "ServiceUnavailableException", "code": 503}}')
CUT = ScriptedResponse(200, b"{", claimed_length=100)


def access_to(endpoint: str, ca_bundle: str | None = None) -> ServerAccess:
    return ServerAccess(endpoint, "AKID", Secret("secret"), ca_bundle=ca_bundle)


@contextmanager
def responding(responses: Sequence[ScriptedResponse]) -> Iterator[ScriptedServer]:
    """A server that sends these responses in order, and repeats the last."""
    remaining = list(responses)

    def script(request: ScriptedRequest) -> ScriptedResponse:
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    with scripted_server(script) as server:
        yield server


@contextmanager
def connected(server: ScriptedServer, pauses: list[float] | None = None) -> Iterator[ServerConnection]:
    connection = ServerConnection(access_to(server.url), sleep=(pauses if pauses is not None else []).append)
    try:
        yield connection
    finally:
        connection.close()


def test_request_is_signed_and_response_decoded() -> None:
    with responding([OK]) as server, connected(server) as connection:
        found = connection.read(dict[str, int], "POST", "/a%1Fb", query={"q": "x y"}, document={"k": "v"})
    (request,) = server.requests
    assert found == {"n": 1}
    assert (request.method, request.path, request.body) == ("POST", "/a%1Fb?q=x%20y", b'{"k":"v"}')
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("lakebed/")


def test_connection_is_reused() -> None:
    opened: list[object] = []
    with responding([OK]) as server, connected(server) as connection:
        original = connection._http._open

        def counted(*where: object) -> object:
            made = original(*where)  # type: ignore[arg-type]  # passed on
            opened.append(made)
            return made

        connection._http._open = counted  # type: ignore[method-assign,assignment]  # counts calls
        for _ in range(3):
            connection.call("GET", "/")
    assert len(server.requests) == 3
    assert len(opened) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_busy_response_is_retried_after_retry_after(method: str) -> None:
    pauses: list[float] = []
    with_retry_after = ScriptedResponse(503, BUSY.body, {"Retry-After": "2"})
    with responding([BUSY, with_retry_after, OK]) as server, connected(server, pauses) as connection:
        connection.call(method, "/")
    assert len(server.requests) == 3
    assert 0 < pauses[0] < 2 <= pauses[1]


def test_retries_end_after_the_maximum_of_attempts() -> None:
    with responding([BUSY]) as server, connected(server) as connection, pytest.raises(Unavailable, match="busy"):
        connection.call("GET", "/")
    assert len(server.requests) == ATTEMPTS


def test_lost_response_is_retried_only_for_repeatable_requests() -> None:
    with responding([CUT, OK]) as server, connected(server) as connection:
        connection.call("GET", "/")
        assert len(server.requests) == 2
    with responding([CUT, OK]) as server, connected(server) as connection:
        with pytest.raises(Unavailable) as lost:
            connection.call("POST", "/")
        assert (lost.value.undecided, len(server.requests)) == (True, 1)
    with responding([CUT, OK]) as server, connected(server) as connection:
        connection.call("POST", "/", repeatable=True)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            ScriptedResponse(400, b'{"error": {"message": "limit is a number", "type": "BadRequestException"}}'),
            InvalidInput,
        ),
        (ScriptedResponse(507, b"full"), StorageFull),
    ],
)
def test_permanent_errors_are_not_retried(answer: ScriptedResponse, error: type[Exception]) -> None:
    with responding([answer]) as server, connected(server) as connection, pytest.raises(error):
        connection.call("GET", "/")
    assert len(server.requests) == 1


def test_response_that_is_not_lakebed_is_reported() -> None:
    html = ScriptedResponse(200, b"<html>")
    rejected = pytest.raises(Unavailable, match="unexpected response")
    with responding([html]) as server, connected(server) as connection, rejected:
        connection.read(dict[str, int], "GET", "/")


def test_unreachable_server_error_has_endpoint_and_advice() -> None:
    pauses: list[float] = []
    endpoint = f"http://127.0.0.1:{free_port()}"
    connection = ServerConnection(access_to(endpoint), sleep=pauses.append)
    with pytest.raises(Unavailable, match="check that it runs") as refused:
        connection.call("POST", "/")
    assert endpoint in str(refused.value)
    assert not refused.value.undecided
    assert len(pauses) == ATTEMPTS - 1


def test_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        connection = ServerConnection(access_to(endpoint), timeout_seconds=0.05, attempts=1)
        with pytest.raises(Unavailable, match="response timed out") as silent:
            connection.call("POST", "/")
        assert silent.value.undecided


def test_connection_closed_by_the_server_is_not_reused() -> None:
    """An idle connection that the server closed must not fail a request that cannot be repeated."""

    def serve(listening: socket.socket, closed: threading.Event) -> None:
        for _ in range(2):
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(65536)
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + OK.body)
            closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = threading.Event()
        server = threading.Thread(target=serve, args=(listening, closed))
        server.start()
        connection = ServerConnection(access_to(f"http://127.0.0.1:{listening.getsockname()[1]}"), attempts=1)
        for _ in range(2):
            assert connection.read(dict[str, int], "POST", "/") == {"n": 1}
            assert closed.wait(10)
        server.join(10)
        connection.close()


def test_credentials_with_invalid_characters_are_rejected_and_not_quoted() -> None:
    with responding([OK]) as server:
        access = ServerAccess(server.url, "AK\r\nID", Secret("secret"), Secret("hid\nden"))
        with pytest.raises(InvalidSetting) as refused:
            ServerConnection(access).call("GET", "/")
    assert "hid" not in str(refused.value)
    assert server.requests == []


def test_connection_is_safe_for_threads() -> None:
    barrier = threading.Barrier(4)

    def script(request: ScriptedRequest) -> ScriptedResponse:
        barrier.wait(10)  # responds only to four concurrent requests
        return OK

    failures: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    with scripted_server(script) as server, connected(server) as connection:
        threads = [threading.Thread(target=run, args=(lambda: connection.call("GET", "/"),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(server.requests) == 4


# -- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.slow
def test_ca_bundle_verifies_the_server_certificate(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with running_tls_server(tmp_path / "data", certificate) as server:
        trusting = ServerConnection(access_to(server.endpoint, str(certificate.certificate)))
        assert trusting.call("GET", "/health/live").body == b"live\n"
        trusting.close()
        with pytest.raises(InvalidSetting, match="AWS_CA_BUNDLE"):
            ServerConnection(access_to(server.endpoint)).call("GET", "/health/live")


def test_unreadable_ca_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"nowhere\.pem"):
        ServerConnection(access_to("https://lake.example", str(tmp_path / "nowhere.pem")))


@pytest.mark.integration
@pytest.mark.slow
def test_http_to_a_tls_server_advises_https(tmp_path: Path) -> None:
    with running_tls_server(tmp_path / "data", make_certificate(tmp_path)) as server:
        connection = ServerConnection(access_to(server.endpoint.replace("https://", "http://")), attempts=1)
        with pytest.raises(InvalidInput, match=r"^this port expects HTTPS: use https:// in place of http://"):
            connection.call("GET", "/lakebed/v1/tasks")
        connection.close()


def test_http_to_another_tls_program_advises_https() -> None:
    alert = b"\x15\x03\x01\x00\x02\x02\x16"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            taken, _ = listener.accept()
            with taken:
                taken.recv(65536)
                taken.sendall(alert)

        answering = threading.Thread(target=refuse)
        answering.start()
        connection = ServerConnection(access_to(f"http://127.0.0.1:{listener.getsockname()[1]}"), attempts=1)
        with pytest.raises(InvalidSetting, match=r"^the server expects TLS; use https://\."):
            connection.call("GET", "/")
        connection.close()
        answering.join()


@pytest.mark.integration
def test_https_to_a_plain_server_advises_http(lakebed_server: RunningServer) -> None:
    connection = ServerConnection(access_to(lakebed_server.endpoint.replace("http://", "https://")), attempts=1)
    with pytest.raises(InvalidSetting, match=r"^the server does not speak TLS; use http://"):
        connection.call("GET", "/")
    connection.close()
