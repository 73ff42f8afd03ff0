"""Behavior of the sync client only; for both clients see `test_clients`."""

from __future__ import annotations

import itertools
import socket
import threading

import pytest

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.http import MAX_RESPONSE_BYTES, HttpFailure, HttpRequest, ResponseTooLong
from lakebed.net.sync_client import SyncHttpClient, threaded_http
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server


async def test_endless_response_is_unavailable() -> None:
    endless = ScriptedResponse(200, b"x" * (MAX_RESPONSE_BYTES + 1))
    with scripted_server(lambda _: endless) as server, pytest.raises(Unavailable):
        await threaded_http()(HttpRequest("GET", server.url))


async def test_header_with_a_line_break_is_not_sent_or_quoted() -> None:
    with scripted_server(lambda _: ScriptedResponse(200)) as server, pytest.raises(InvalidSetting) as refused:
        await threaded_http()(HttpRequest("GET", server.url, {"X-Token": "hidden\r\nX-Evil: 1"}))
    assert server.requests == []
    assert "hidden" not in repr(refused.value)


async def test_proxy_is_used_only_for_tls_and_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(lambda _: ScriptedResponse(200)) as metadata, socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:pass%40word@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await threaded_http()(HttpRequest("GET", metadata.url))).status == 200
        request = HttpRequest("POST", "https://sts.invalid/", timeout_seconds=0.05, through_proxy=True)
        with pytest.raises(Unavailable):  # the proxy accepts the connection and stays silent
            await threaded_http()(request)
        accepted, _ = proxy.accept()
        with accepted:
            head = accepted.recv(4096)
    assert head.startswith(b"CONNECT sts.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6cGFzc0B3b3Jk" in head


def test_threads_share_a_client() -> None:
    barrier = threading.Barrier(4)
    numbers = itertools.count()

    def script(request: ScriptedRequest) -> ScriptedResponse:
        if next(numbers) < 4:
            barrier.wait(10)  # responds only to four concurrent requests
        return ScriptedResponse(200, request.path.encode())

    client = SyncHttpClient(max_idle=2)
    found: dict[str, bytes] = {}
    with scripted_server(script) as server:

        def run(name: str) -> None:
            for turn in range(10):
                found[f"/{name}/{turn}"] = client.send(HttpRequest("GET", f"{server.url}/{name}/{turn}")).body

        threads = [threading.Thread(target=run, args=(f"{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(idle) for idle in client._idle.values()] == [2]
        client.close()
    assert found == {path: path.encode() for path in found}
    assert len(found) == 40


def test_streamed_body_allows_connection_reuse() -> None:
    body = bytes(range(256)) * 4096
    client = SyncHttpClient(max_idle=1)
    with scripted_server(lambda _: ScriptedResponse(200, body, {"Retry-After": "7"})) as server:
        for _ in range(2):
            with client.stream(HttpRequest("GET", server.url)) as response:
                assert (response.status, response.headers["retry-after"]) == (200, "7")
                assert b"".join(response.pieces) == body
            assert [len(idle) for idle in client._idle.values()] == [1]
        client.close()


def test_leaving_a_stream_early_closes_its_connection() -> None:
    client = SyncHttpClient(max_idle=1)
    with scripted_server(lambda _: ScriptedResponse(200, b"x" * 1_000_000)) as server:
        with client.stream(HttpRequest("GET", server.url)) as response:
            next(response.pieces)
        assert not any(client._idle.values())


def test_truncated_stream_is_a_failure() -> None:
    client = SyncHttpClient(max_idle=1)
    with (
        scripted_server(lambda _: ScriptedResponse(200, b"half", claimed_length=10)) as server,
        client.stream(HttpRequest("GET", server.url)) as response,
    ):
        assert next(response.pieces) == b"half"
        with pytest.raises(HttpFailure, match="IncompleteRead"):
            next(response.pieces)
    assert not any(client._idle.values())


def test_failure_is_raised_in_the_caller() -> None:
    client = SyncHttpClient(connect_timeout_seconds=0.5)
    with scripted_server(lambda _: ScriptedResponse(200, b"long")) as server:
        with pytest.raises(HttpFailure) as long:
            client.send(HttpRequest("GET", server.url, max_response_bytes=3))
        assert isinstance(long.value.error, ResponseTooLong)
    with pytest.raises(HttpFailure) as gone:
        client.send(HttpRequest("GET", server.url))
    assert isinstance(gone.value.error, ConnectionRefusedError)
    assert (long.value.is_sent, gone.value.is_sent) == (True, False)
