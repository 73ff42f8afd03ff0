"""Malformed request heads, lengths and chunks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fixtures.raw_http import UNSIGNED, request_bytes

from .site import BODY, BUCKET, KEPT, Case, Site, assert_error, cases, sha256

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.usefixtures("unchanged")
@cases(
    ("no request line", 400, "BadRequest", lambda s: b"GARBAGE\r\n\r\n"),
    ("method alone", 400, "BadRequest", lambda s: b"GET\r\n\r\n"),
    ("no version", 400, "BadRequest", lambda s: b"GET /\r\nhost: x\r\n\r\n"),
    ("unknown version", 400, "BadRequest", lambda s: b"GET / HTTP/9.9\r\nhost: x\r\n\r\n"),
    ("another protocol", 400, "BadRequest", lambda s: b"GET / RTSP/1.0\r\nhost: x\r\n\r\n"),
    ("blank in the target", 400, "BadRequest", lambda s: b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("target that is no path", 400, "BadRequest", lambda s: b"GET bucket/key HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("unknown method", 400, "BadRequest", lambda s: b"BREW / HTTP/1.1\r\nhost: x\r\n\r\n"),
    (
        "tls on a plain port",
        400,
        "BadRequest",
        lambda s: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 99,
    ),
    ("header without colon", 400, "BadRequest", lambda s: s.raw("GET", "/", "nonsense")),
    ("blank before the colon", 400, "BadRequest", lambda s: s.raw("GET", "/", "content-length : 5", body=b"hello")),
    ("folded header", 400, "BadRequest", lambda s: s.raw("GET", "/", "x-a: b", " c")),
    ("nul in a header", 400, "BadRequest", lambda s: s.raw("GET", "/", "x-a: b\0c")),
    ("line feed alone", 400, "BadRequest", lambda s: s.raw("GET", "/", "x-a: b\ncontent-length: 5", body=b"hello")),
    ("oversized header", 400, "RequestHeaderSectionTooLarge", lambda s: s.raw("GET", "/", f"x-a: {'b' * 70_000}")),
    ("oversized target", 400, "RequestHeaderSectionTooLarge", lambda s: s.raw("GET", f"/{'b' * 70_000}")),
    (
        "too many headers",
        400,
        "RequestHeaderSectionTooLarge",
        lambda s: s.raw("GET", "/", *(f"x-{n}: b" for n in range(2000))),
    ),
    ("repeated header", 400, "RequestHeaderSectionTooLarge", lambda s: s.raw("GET", "/", *(["a: b"] * 9000))),
    ("length not a number", 400, "BadRequest", lambda s: s.raw("PUT", "/a/b", "content-length: abc")),
    ("negative length", 400, "BadRequest", lambda s: s.raw("PUT", "/a/b", "content-length: -1")),
    ("signed length", 400, "BadRequest", lambda s: s.raw("PUT", "/a/b", "content-length: +5", body=b"hello")),
    ("empty length", 400, "BadRequest", lambda s: s.raw("PUT", "/a/b", "content-length: ")),
    ("endless length", 400, "BadRequest", lambda s: s.raw("PUT", "/a/b", f"content-length: {'9' * 30}")),
    (
        "two lengths",
        400,
        "BadRequest",
        lambda s: s.raw("PUT", "/a/b", "content-length: 5", "content-length: 6", body=b"hello"),
    ),
    (
        "the same length twice",
        400,
        "BadRequest",
        lambda s: s.raw("PUT", "/a/b", "content-length: 5", "content-length: 5", body=b"hello"),
    ),
    (
        "length and chunks",
        400,
        "BadRequest",
        lambda s: s.raw("PUT", "/a/b", "content-length: 5", "transfer-encoding: chunked", body=b"0\r\n\r\n"),
    ),
    (
        "chunks and length",
        400,
        "BadRequest",
        lambda s: s.raw("PUT", "/a/b", "transfer-encoding: chunked", "content-length: 5", body=b"0\r\n\r\n"),
    ),
    ("no host", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\r\nx-a: b\r\n\r\n"),
    (
        "no host beside an absolute target",
        400,
        "BadRequest",
        lambda s: f"GET http://{s.signer.host}/ HTTP/1.1\r\nx-a: b\r\n\r\n".encode(),
    ),
    ("two hosts", 400, "BadRequest", lambda s: s.raw("GET", "/", "host: other")),
    ("the same host twice", 400, "BadRequest", lambda s: s.raw("GET", "/", f"Host: {s.signer.host}")),
    ("host with a path", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n"),
    ("host with a blank", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n"),
    ("host with a user", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\r\nhost: a@b\r\n\r\n"),
    ("host with two ports", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\r\nhost: a:1:2\r\n\r\n"),
    ("invalid host of 1.0", 400, "BadRequest", lambda s: b"GET / HTTP/1.0\r\nhost: a/b\r\n\r\n"),
    ("absolute target with a user", 400, "BadRequest", lambda s: s.raw("GET", "http://a@b/")),
    ("absolute target without a host", 400, "BadRequest", lambda s: s.raw("GET", "http:///a")),
    ("line feed alone after the request line", 400, "BadRequest", lambda s: b"GET / HTTP/1.1\nhost: x\r\n\r\n"),
    ("line feeds alone at the end", 400, "BadRequest", lambda s: s.raw("GET", "/", "x-a: b\n\nGET /c HTTP/1.1")),
    ("carriage return alone", 400, "BadRequest", lambda s: s.raw("GET", "/", "x-a: b\rcontent-length: 5")),
    ("chunks of 1.0", 400, "BadRequest", lambda s: b"PUT /a/b HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunks twice", 400, "BadRequest", lambda s: s.raw("PUT", "/a", *(["transfer-encoding: chunked"] * 2))),
    ("unknown coding", 501, "NotImplemented", lambda s: s.raw("PUT", "/a/b", "transfer-encoding: gzip, chunked")),
)
def test_malformed_head_is_rejected_and_the_connection_closes(site: Site, case: Case) -> None:
    with site.connect() as connection:
        response = connection.exchange(case.make(site))
        assert_error(response, case.status, case.code)
        assert response.headers["connection"] == "close"
        assert connection.is_ended()


def _chunked(site: Site, *, body: bytes = b"5\r\nhello\r\n0\r\n\r\n", **extra: str) -> bytes:
    added = {name.replace("_", "-"): value for name, value in extra.items()}
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", added, payload_hash=UNSIGNED)
    return request_bytes("PUT", f"/{BUCKET}/new", headers | {"transfer-encoding": "chunked"}, body)


@pytest.mark.usefixtures("unchanged")
@cases(
    ("no length", 411, "MissingContentLength", lambda s: _chunked(s)),
    (
        "neither length nor chunks",
        411,
        "MissingContentLength",
        lambda s: s.put().replace(b"content-length: 31\r\n", b""),
    ),
    ("too long for one put", 400, "EntityTooLarge", lambda s: s.put({"content-length": str(6 << 30)}, b"")),
    ("body over what was signed", 400, "XAmzContentSHA256Mismatch", lambda s: s.put({"content-length": "5"})),
)
def test_wrong_length_is_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


def _chunks(body: bytes) -> Callable[[Site], bytes]:
    """A DeleteObjects request with this chunked body."""

    def make(site: Site) -> bytes:
        headers = site.signer.headers("POST", f"/{BUCKET}?delete", payload_hash=UNSIGNED)
        headers["content-md5"] = "1B2M2Y8AsgTpgAmY7PhCfg=="
        return request_bytes("POST", f"/{BUCKET}?delete", headers | {"transfer-encoding": "chunked"}, body)

    return make


@pytest.mark.usefixtures("unchanged")
@cases(
    ("no size", 400, "IncompleteBody", _chunks(b"hello\r\n0\r\n\r\n")),
    ("negative size", 400, "IncompleteBody", _chunks(b"-5\r\nhello\r\n0\r\n\r\n")),
    ("size over all bounds", 400, "IncompleteBody", _chunks(b"f" * 40 + b"\r\nhello\r\n0\r\n\r\n")),
    ("chunk longer than it says", 400, "IncompleteBody", _chunks(b"3\r\nhello\r\n0\r\n\r\n")),
    ("endless size line", 400, "IncompleteBody", _chunks(b"5;" + b"x" * 100_000)),
    ("endless trailer", 400, "IncompleteBody", _chunks(b"0\r\n" + b"x-a: b\r\n" * 50_000)),
    ("other bytes than their digest", 400, "BadDigest", _chunks(b"5\r\nhello\r\n0\r\n\r\n")),
)
def test_malformed_chunks_are_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_truncated_body_stores_nothing(site: Site, size: int) -> None:
    body = b"x" * size
    request = site.put(None, body)
    with site.connect() as connection:
        connection.send(request[: -size // 2])
        connection.finish_sending()
        assert_error(connection.receive(), 400, "IncompleteBody")
    with site.connect() as connection:
        connection.send(request[: -size // 2])


def test_bytes_after_a_body_are_the_next_request(site: Site) -> None:
    with site.connect() as connection:
        connection.send(site.put(key="followed") + b"more than was declared\r\n\r\n")
        assert connection.receive().status == 200
        assert_error(connection.receive(), 400, "BadRequest")
        assert connection.is_ended()
    assert site.send(site.signed("GET", f"/{BUCKET}/followed")).body == BODY
    assert site.send(site.signed("DELETE", f"/{BUCKET}/followed")).status == 204


def test_request_after_a_chunked_body_is_served_separately(site: Site) -> None:
    body = b"<Delete><Object><Key>absent</Key></Object></Delete>"
    headers = site.signer.headers("POST", f"/{BUCKET}?delete", {"x-amz-checksum-sha256": sha256(body)}, body)
    del headers["content-length"]
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    first = request_bytes("POST", f"/{BUCKET}?delete", headers | {"transfer-encoding": "chunked"}, chunks)
    with site.connect() as connection:
        connection.send(first + site.signed("GET", f"/{BUCKET}/{KEPT}"))
        assert b"<Deleted>" in connection.receive().body
        assert connection.receive().body == b"kept bytes"


@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\r\n" * 9])
def test_empty_lines_before_a_request_are_ignored(site: Site, blank: bytes) -> None:
    request = site.signed("GET", f"/{BUCKET}/{KEPT}")
    with site.connect() as connection:
        connection.send(blank)
        connection.send(blank + request + blank + request)
        assert connection.receive().body == b"kept bytes"
        assert connection.receive().body == b"kept bytes"


def test_http_1_0_does_not_require_a_host_header(site: Site) -> None:
    with site.connect() as connection:
        assert_error(connection.exchange(b"GET / HTTP/1.0\r\n\r\n"), 403, "AccessDenied")
        assert connection.is_ended()


def test_host_of_an_absolute_target_overrides_the_header(site: Site) -> None:
    """Proxies forward the target unchanged; the Host header is ignored."""
    path = f"/{BUCKET}/{KEPT}"
    headers = site.signer.headers("GET", path)
    target = f"http://{site.signer.host}{path}"
    for host in (site.signer.host, "other.example"):
        assert site.send(request_bytes("GET", target, headers | {"host": host})).body == b"kept bytes"
    assert_error(site.send(request_bytes("GET", f"http://other.example{path}", headers)), 403, "SignatureDoesNotMatch")


def test_upgrade_is_ignored(site: Site) -> None:
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"}
    headers = site.signer.headers("PUT", f"/{BUCKET}/{KEPT}", None, b"kept bytes") | offer
    with site.connect() as connection:
        assert connection.exchange(request_bytes("PUT", f"/{BUCKET}/{KEPT}", headers, b"kept bytes")).status == 200
        headers = site.signer.headers("GET", f"/{BUCKET}/{KEPT}") | offer
        assert connection.exchange(request_bytes("GET", f"/{BUCKET}/{KEPT}", headers)).body == b"kept bytes"
