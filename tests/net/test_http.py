"""The HTTP of the credential providers."""

from __future__ import annotations

import socket

import pytest

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.http import MAX_RESPONSE_BYTES, HttpRequest
from lakebed.net.sync_client import threaded_http
from tests.fixtures.scripted_http import Answer, scripted_server


async def test_request_arrives_as_it_was_made() -> None:
    with scripted_server(lambda _: Answer(201, b"made")) as server:
        answer = await threaded_http()(HttpRequest("POST", f"{server.url}/a?b=c", {"X-One": "1"}, b"body"))
    assert (answer.status, answer.body) == (201, b"made")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body, asked.headers["x-one"]) == ("POST", "/a?b=c", b"body", "1")


async def test_redirect_is_not_followed() -> None:
    with scripted_server(lambda _: Answer(302, headers={"Location": "http://127.0.0.1:1/"})) as server:
        answer = await threaded_http()(HttpRequest("GET", server.url))
    assert answer.status == 302
    assert server.asked[0].path == "/"


async def test_nobody_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable):
            await threaded_http()(HttpRequest("GET", f"http://127.0.0.1:{taken.getsockname()[1]}/x"))


async def test_answer_cut_short_is_unavailable() -> None:
    with scripted_server(lambda _: Answer(200, b"half", claimed_length=10)) as server, pytest.raises(Unavailable):
        await threaded_http()(HttpRequest("GET", server.url))


async def test_endless_answer_is_unavailable() -> None:
    endless = Answer(200, b"x" * (MAX_RESPONSE_BYTES + 1))
    with scripted_server(lambda _: endless) as server, pytest.raises(Unavailable):
        await threaded_http()(HttpRequest("GET", server.url))


async def test_header_with_a_line_break_is_not_sent_and_not_shown() -> None:
    with scripted_server(lambda _: Answer(200)) as server, pytest.raises(InvalidSetting) as refused:
        await threaded_http()(HttpRequest("GET", server.url, {"X-Token": "hidden\r\nX-Evil: 1"}))
    assert server.asked == []
    assert "hidden" not in repr(refused.value)


async def test_proxy_is_used_for_tls_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(lambda _: Answer(200)) as metadata, socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:pass%40word@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await threaded_http()(HttpRequest("GET", metadata.url))).status == 200
        request = HttpRequest("POST", "https://sts.invalid/", timeout_seconds=0.05, through_proxy=True)
        with pytest.raises(Unavailable):  # the proxy takes the connection and says nothing
            await threaded_http()(request)
        accepted, _ = proxy.accept()
        with accepted:
            said = accepted.recv(4096)
    assert said.startswith(b"CONNECT sts.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6cGFzc0B3b3Jk" in said
