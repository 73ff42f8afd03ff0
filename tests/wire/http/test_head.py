from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.wire.http.head import MAX_HEADERS, HeadRejected, RequestHead

TOKEN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"


def parse(text: str | bytes, *, host: str | None = "h") -> RequestHead:
    """Parse a head, after adding a Host header unless it has one."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if host is not None and b"\nhost:" not in data.lower():
        line, _, rest = data.partition(b"\r\n")
        data = b"%b\r\nHost: %b\r\n%b" % (line, host.encode(), rest)
    return RequestHead(data, data.find(b"\r\n\r\n") + 4)


def rejected_status(text: str | bytes, *, host: str | None = "h") -> int:
    with pytest.raises(HeadRejected) as rejected:
        parse(text, host=host).body()
    return rejected.value.fault.status


def test_method_target_and_headers_are_unchanged() -> None:
    head = parse(
        "PUT /b/k%2Fx%zz//../y?versionId=1&a=%20+ HTTP/1.1\r\nHost: h\r\nX-Amz-Meta-Név:  a  b\tc\r\n\r\n".replace(
            "é", "e"
        )
    )
    assert (head.method, head.path, head.query) == ("PUT", "/b/k%2Fx%zz//../y", "versionId=1&a=%20+")
    assert head.headers == {"host": "h", "x-amz-meta-nev": "a  b\tc"}


def test_query_begins_at_the_first_question_mark() -> None:
    head = parse("GET /a?b=c?d HTTP/1.1\r\n\r\n")
    assert (head.path, head.query) == ("/a", "b=c?d")


def test_header_bytes_that_are_not_utf_8_round_trip() -> None:
    head = parse(b"GET / HTTP/1.1\r\nX-Name: caf\xe9 \xff\r\nX-Good: caf\xc3\xa9\r\n\r\n")
    assert head.headers["x-name"].encode("utf-8", "surrogateescape") == b"caf\xe9 \xff"
    assert head.headers["x-good"] == "café"


def test_repeated_headers_are_joined_in_order() -> None:
    head = parse("GET / HTTP/1.1\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\nX-A:\r\n\r\n")
    assert head.headers == {"host": "h", "x-a": "1,3,", "x-b": "2"}


@pytest.mark.parametrize(
    "host", ["h", "h:9000", "bucket.h.example:443", "127.0.0.1:80", "[::1]", "[::1]:9000", "", "a_b", "h:", "%41", "h "]
)
def test_valid_hosts_are_kept(host: str) -> None:
    assert parse(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").headers["host"] == host.rstrip()


@pytest.mark.parametrize(
    "host",
    [
        "a b",
        "a/b",
        "h:x",
        "h:1:2",
        "h:99999",
        "u@h",
        "http://h",
        "h?x",
        "h#x",
        "h\\x",
        "[::1",
        "::1",
        "[:::]",
        "h%4",
        "[v1.x]",
        "h<",
        "né",
        "h" * 2000,
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_invalid_hosts_are_rejected(host: str, version: str) -> None:
    assert rejected_status(f"GET / HTTP/{version}\r\nHost: {host}\r\n\r\n") == 400


def test_http_1_1_requires_exactly_one_host_header() -> None:
    assert rejected_status("GET / HTTP/1.1\r\n\r\n", host=None) == 400
    assert rejected_status("GET http://h/ HTTP/1.1\r\n\r\n", host=None) == 400
    for second in ("h", "other", ""):
        for version in ("1.0", "1.1"):
            assert rejected_status(f"GET / HTTP/{version}\r\nHost: h\r\nX-A: 1\r\nhost: {second}\r\n\r\n") == 400


def test_http_1_0_does_not_require_a_host_header() -> None:
    assert "host" not in parse("GET / HTTP/1.0\r\n\r\n", host=None).headers


def test_host_of_an_absolute_target_overrides_the_header() -> None:
    assert parse("GET http://b.h:9000/k HTTP/1.1\r\nHost: other\r\n\r\n").headers["host"] == "b.h:9000"
    assert rejected_status("GET http://b.h/k HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400
    assert rejected_status("GET http://b.h/k HTTP/1.1\r\nHost: a/b\r\n\r\n") == 400
    for target in ("http:///k", "http://u:p@h/k", "http://h:x/k", "https://", "http://?x=1"):
        assert rejected_status(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n") == 400


def test_http_1_0_with_transfer_encoding_is_rejected() -> None:
    assert rejected_status("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://host:9000/b/k?x=1", "/b/k", "x=1"),
        ("HTTPS://host/b", "/b", ""),
        ("http://host", "/", ""),
        ("http://host?x=1", "/", "x=1"),
        ("*", "*", ""),
    ],
)
def test_absolute_targets_are_split_into_path_and_query(target: str, path: str, query: str) -> None:
    head = parse(f"OPTIONS {target} HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("1.1", None, True),
        ("1.1", "close", False),
        ("1.1", "Close", False),
        ("1.1", "keep-alive", True),
        ("1.1", "upgrade, close", False),
        ("1.1", "TE", True),
        ("1.0", None, False),
        ("1.0", "keep-alive", True),
        ("1.0", "Keep-Alive", True),
        ("1.0", "close", False),
        ("1.0", "keep-alive, close", False),
    ],
)
@pytest.mark.parametrize("length", ["", "Content-Length: 3\r\n"])
def test_keep_alive_follows_version_and_connection_header(
    version: str, connection: str | None, kept: bool, length: str
) -> None:
    option = "" if connection is None else f"Connection: {connection}\r\n"
    head = parse(f"GET / HTTP/{version}\r\n{option}{length}\r\n")
    assert head.keep_alive is kept
    assert head.version_1_0 is (version == "1.0")


def test_upgrade_is_ignored() -> None:
    head = parse("GET /b HTTP/1.1\r\nHost: h\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade\r\nX-Last: 1\r\n\r\n")
    assert (head.path, head.headers["x-last"], head.keep_alive) == ("/b", "1", True)
    assert head.body().finished


def test_request_with_upgrade_keeps_its_content_length() -> None:
    head = parse("PUT /b HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\n")
    assert head.body().length == 5


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT h:443 HTTP/1.1\r\n\r\n",
        "FETCH / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.9\r\n\r\n",
        "GET /a b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nName : v\r\n\r\n",
        "GET / HTTP/1.1\r\n: v\r\n\r\n",
        "GET / HTTP/1.1\r\nName: v\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nName: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nName: a\nX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nName: a\0b\r\n\r\n",
        "GET /a\0b HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "GET / HTTP/0.9\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / RTSP/1.0\r\n\r\n",
        "SOURCE / ICE/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3,3\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        f"GET / HTTP/1.1\r\nContent-Length: {'9' * 5000}\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding:\vchunked\r\n\r\n",
    ],
)
def test_ambiguous_heads_are_rejected(head: str) -> None:
    assert rejected_status(head) == 400


def test_raw_bytes_in_the_target_are_rejected() -> None:
    assert rejected_status(b"GET /caf\xe9 HTTP/1.1\r\n\r\n") == 400


def test_transfer_codings_other_than_chunked_are_not_implemented() -> None:
    assert rejected_status("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") == 501


def test_too_many_headers_are_rejected() -> None:
    most = "".join(f"H{number}: v\r\n" for number in range(MAX_HEADERS - 1))
    assert len(parse(f"GET / HTTP/1.1\r\n{most}\r\n").headers) == MAX_HEADERS
    assert rejected_status(f"GET / HTTP/1.1\r\n{most}One-More: v\r\n\r\n") == 431


def test_content_length_and_transfer_encoding_determine_the_body() -> None:
    assert parse("GET / HTTP/1.1\r\n\r\n").body().finished
    assert parse("PUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").body().finished
    sized = parse("PUT / HTTP/1.1\r\nContent-Length: 12 \r\n\r\n").body()
    assert (sized.length, sized.chunked, sized.finished) == (12, False, False)
    chunked = parse("PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").body()
    assert (chunked.length, chunked.chunked, chunked.finished) == (None, True, False)


async def test_requests_without_a_body_share_an_empty_one() -> None:
    body = parse("GET / HTTP/1.1\r\n\r\n").body()
    assert (await body.read(0), await body.next_chunk()) == (b"", None)
    again = parse("HEAD /other HTTP/1.1\r\n\r\n").body()
    assert again is body
    assert (again.finished, again.received, again.length, again.chunked) == (True, 0, 0, False)
    assert (again.is_full, again.is_awaited, again.awaits_continue) == (False, False, False)


def test_only_http_1_1_clients_expect_100_continue() -> None:
    assert parse("PUT / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n").expects_continue
    assert not parse("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n").expects_continue
    assert not parse("PUT / HTTP/1.1\r\nExpect: wonders\r\nContent-Length: 1\r\n\r\n").expects_continue
    assert not parse("PUT / HTTP/1.1\r\nContent-Length: 1\r\n\r\n").expects_continue


def test_bytes_after_the_head_are_ignored() -> None:
    data = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nGET /x HTTP/1.1\r\n\r\n"
    assert RequestHead(data, data.find(b"\r\n\r\n") + 4).path == "/"


@given(
    st.sampled_from(["GET", "PUT", "DELETE", "HEAD", "POST", "OPTIONS"]),
    st.text("/%abc!$&'()*+,;=:@-._~", max_size=40),
    st.lists(
        st.tuples(
            st.text(TOKEN, min_size=1, max_size=20),
            st.binary(max_size=40).map(lambda raw: bytes(byte for byte in raw if byte >= 0x20 and byte != 0x7F)),
        ),
        max_size=20,
    ),
)
def test_written_heads_are_parsed_unchanged(method: str, path: str, headers: list[tuple[str, bytes]]) -> None:
    known = {"connection", "content-length", "transfer-encoding", "upgrade"}
    sent = [(f"X-{name}", value.strip()) for name, value in headers]
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in sent)
    head = parse(f"{method} /{path} HTTP/1.1\r\n".encode() + lines + b"\r\n")
    assert (head.method, head.path) == (method, f"/{path}")
    expected: dict[str, list[bytes]] = {}
    for name, value in sent:
        expected.setdefault(name.lower(), []).append(value)
    found = {name: value.encode("utf-8", "surrogateescape") for name, value in head.headers.items()}
    assert found == {"host": b"h"} | {name: b",".join(values) for name, values in expected.items()}
    assert not known & set(found)


def check_is_parsed_or_rejected(data: bytes) -> None:
    status = 0
    try:
        head = RequestHead(data, len(data))
        head.body()
    except HeadRejected as rejected:
        status = rejected.fault.status
    assert status in (400, 431, 501) or data.startswith(head.method.encode())


@given(st.binary(max_size=200))
@example(b"")
@example(b"\r\n")
@example(b"GET / HTTP/1.1")
def test_random_bytes_are_parsed_or_rejected(noise: bytes) -> None:
    check_is_parsed_or_rejected(noise.replace(b"\r\n\r\n", b"") + b"\r\n\r\n")


@given(st.lists(st.sampled_from([b"GET", b" ", b"/", b"HTTP/1.1", b"\r\n", b"Host:", b"a", b"\n", b"Expect: a"])))
def test_shuffled_pieces_of_heads_are_parsed_or_rejected(pieces: list[bytes]) -> None:
    check_is_parsed_or_rejected(b"".join(pieces).replace(b"\r\n\r\n", b"") + b"\r\n\r\n")
