"""Bad input over a real socket: the right S3 error each, no traceback in the log, nothing stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from xml.etree import ElementTree

import pytest
from tests.fixtures.raw_http import UNSIGNED, Answer, Connection, Signer, request_bytes
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BUCKET: Final = "bad-input"
VERSIONED: Final = "bad-input-versioned"
KEPT: Final = "kept"
BODY: Final = b"what is sent with a bad request"
HEX: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Site:
    """A server with two buckets, one object and one upload: none of which a bad request may change."""

    server: RunningServer
    signer: Signer
    upload: str

    def connect(self) -> Connection:
        return Connection(self.server.port)

    def ask(self, request: bytes, *, is_head: bool = False) -> Answer:
        with self.connect() as connection:
            return connection.ask(request, is_head=is_head)

    def signed(
        self, method: str, target: str, extra: Mapping[str, str] | None = None, body: bytes = b"", **how: str
    ) -> bytes:
        return self.signer.request(method, target, extra, body, **how)

    def put(self, extra: Mapping[str, str] | None = None, body: bytes = BODY, key: str = "new", **how: str) -> bytes:
        return self.signed("PUT", f"/{BUCKET}/{key}", extra, body, **how)

    def raw(self, method: str, target: str, *lines: str, body: bytes = b"") -> bytes:
        """A request with no headers but the host's and these lines."""
        head = "\r\n".join([f"{method} {target} HTTP/1.1", f"host: {self.signer.host}", *lines])
        return head.encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body

    def stored(self) -> tuple[str, ...]:
        """All that the server keeps, as text: buckets, versions, uploads and their parts, settings."""
        seen = []
        for target in (
            "/",
            f"/{BUCKET}?versions",
            f"/{VERSIONED}?versions",
            f"/{BUCKET}?uploads",
            f"/{BUCKET}/upload?uploadId={self.upload}",
            f"/{BUCKET}/{KEPT}?tagging",
            f"/{VERSIONED}?versioning",
        ):
            answer = self.ask(self.signed("GET", target))
            assert answer.status == 200, answer
            seen.append(answer.body.decode())
        for setting in ("lifecycle", "cors", "tagging", "encryption", "policy", "publicAccessBlock", "object-lock"):
            answer = self.ask(self.signed("GET", f"/{BUCKET}?{setting}"))
            seen.append(answer.body.decode() if answer.status == 200 else answer.code)
        return tuple(seen)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server(tmp_path_factory.mktemp("bad-input") / "data") as server:
        signer = Signer(f"127.0.0.1:{server.port}")
        versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        with Connection(server.port) as connection:
            for request in (
                signer.request("PUT", f"/{BUCKET}"),
                signer.request("PUT", f"/{VERSIONED}"),
                signer.request("PUT", f"/{VERSIONED}?versioning", None, versioning),
                signer.request("PUT", f"/{BUCKET}/{KEPT}", None, b"kept bytes"),
                signer.request("PUT", f"/{VERSIONED}/{KEPT}", None, b"kept bytes"),
            ):
                answer = connection.ask(request)
                assert answer.status == 200, answer
            begun = connection.ask(signer.request("POST", f"/{BUCKET}/upload?uploads"))
        upload = ElementTree.fromstring(begun.body).findtext("{http://s3.amazonaws.com/doc/2006-03-01/}UploadId")
        assert upload is not None
        yield Site(server, signer, upload)


@pytest.fixture(autouse=True)
def quiet(site: Site) -> Iterator[None]:
    """Nothing that a client sends makes the server log a failure."""
    begin = site.server.log.stat().st_size
    yield
    for line in site.server.log.read_bytes()[begin:].decode().splitlines():
        told = json.loads(line)
        assert told["level"] == "info", told.get("error", line)


@pytest.fixture
def unchanged(site: Site) -> Iterator[None]:
    """Nothing is stored or removed by the test."""
    before = site.stored()
    yield
    assert site.stored() == before


def assert_refused(answer: Answer, status: int, code: str) -> None:
    """An error document of that code, which names the request as the headers do."""
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.headers["content-type"] == "application/xml"
    assert answer.request_id
    assert answer.document_request_id == answer.request_id
    ElementTree.fromstring(answer.body)


@dataclass(frozen=True, slots=True)
class Case:
    """A request and the error it earns."""

    name: str
    status: int
    code: str
    make: Callable[[Site], bytes]


def cases(*rows: tuple[str, int, str, Callable[[Site], bytes]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(Case(*row), id=row[0].replace(" ", "-")) for row in rows])


# -- documents ----------------------------------------------------------------------------------------------------

DOCUMENTS: Final = {
    "CreateBucketConfiguration": ("PUT", "/bad-input-new"),
    "VersioningConfiguration": ("PUT", f"/{BUCKET}?versioning"),
    "LifecycleConfiguration": ("PUT", f"/{BUCKET}?lifecycle"),
    "CORSConfiguration": ("PUT", f"/{BUCKET}?cors"),
    "Tagging": ("PUT", f"/{BUCKET}?tagging"),
    "Tagging-object": ("PUT", f"/{BUCKET}/{KEPT}?tagging"),
    "ServerSideEncryptionConfiguration": ("PUT", f"/{BUCKET}?encryption"),
    "PublicAccessBlockConfiguration": ("PUT", f"/{BUCKET}?publicAccessBlock"),
    "OwnershipControls": ("PUT", f"/{BUCKET}?ownershipControls"),
    "ObjectLockConfiguration": ("PUT", f"/{BUCKET}?object-lock"),
    "RequestPaymentConfiguration": ("PUT", f"/{BUCKET}?requestPayment"),
    "BucketLoggingStatus": ("PUT", f"/{BUCKET}?logging"),
    "Retention": ("PUT", f"/{VERSIONED}/{KEPT}?retention"),
    "LegalHold": ("PUT", f"/{VERSIONED}/{KEPT}?legal-hold"),
    "Delete": ("POST", f"/{BUCKET}?delete"),
    "CompleteMultipartUpload": ("POST", f"/{BUCKET}/upload?uploadId=UPLOAD"),
}
_BOMB: Final = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
MALFORMED: Final[Mapping[str, Callable[[str], bytes]]] = {
    "words": lambda root: b"these are words",
    "cut short": lambda root: f"<{root}><a>".encode(),
    "another document": lambda root: b"<Other/>",
    "two documents": lambda root: f"<{root}/><{root}/>".encode(),
    "unknown element": lambda root: f"<{root}><Nonsense>1</Nonsense></{root}>".encode(),
    "doctype": lambda root: f"<!DOCTYPE {root}><{root}/>".encode(),
    "outside entity": lambda root: (
        f'<!DOCTYPE {root} [<!ENTITY x SYSTEM "file:///etc/hostname">]><{root}>&x;</{root}>'.encode()
    ),
    "entity bomb": lambda root: f"<!DOCTYPE {root} [{_BOMB}]><{root}>&e9;</{root}>".encode(),
    "deep nesting": lambda root: (f"<{root}>" + "<a>" * 100_000).encode(),
    "latin-1": lambda root: f'<?xml version="1.0" encoding="ISO-8859-1"?><{root}>\xe4</{root}>'.encode("latin-1"),
    "doctype in utf-16": lambda root: f"<!DOCTYPE {root}><{root}/>".encode("utf-16"),
    "nul": lambda root: f"<{root}>\0</{root}>".encode(),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_malformed_document_is_refused_and_changes_nothing(site: Site, document: str) -> None:
    method, target = DOCUMENTS[document]
    target = target.replace("UPLOAD", site.upload)
    with site.connect() as connection:
        for make in MALFORMED.values():
            body = make(document.partition("-")[0])
            answer = connection.ask(site.signed(method, target, None, body))
            assert_refused(answer, 400, "MalformedXML")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "policy", [b"{", b"[]", b'"text"', b'{"Version": "2012-10-17"}', b"\xff", b"null", b"[" * 9999]
)
def test_malformed_policy_is_refused(site: Site, policy: bytes) -> None:
    assert_refused(site.ask(site.signed("PUT", f"/{BUCKET}?policy", None, policy)), 400, "MalformedPolicy")


@pytest.mark.usefixtures("unchanged")
def test_document_over_the_limit_is_refused_before_it_is_read(site: Site) -> None:
    headers = site.signer.headers("POST", f"/{BUCKET}?delete", {"content-length": str(64 << 20)}, payload_hash=HEX)
    assert_refused(site.ask(request_bytes("POST", f"/{BUCKET}?delete", headers)), 400, "EntityTooLarge")


# -- heads and framing --------------------------------------------------------------------------------------------


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
    ("unknown coding", 501, "NotImplemented", lambda s: s.raw("PUT", "/a/b", "transfer-encoding: gzip, chunked")),
)
def test_head_that_cannot_be_read_is_refused_and_the_connection_ends(site: Site, case: Case) -> None:
    with site.connect() as connection:
        answer = connection.ask(case.make(site))
        assert_refused(answer, case.status, case.code)
        assert answer.headers["connection"] == "close"
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
def test_wrong_length_is_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


def _chunks(body: bytes) -> Callable[[Site], bytes]:
    """A deletion, which may come in chunks, in these."""

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
def test_broken_chunks_are_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
def test_sender_that_stops_inside_its_body_stores_nothing(site: Site, size: int) -> None:
    body = b"x" * size
    request = site.put(None, body)
    with site.connect() as connection:
        connection.send(request[: -size // 2])
        connection.finish_sending()
        assert_refused(connection.receive(), 400, "IncompleteBody")
    with site.connect() as connection:
        connection.send(request[: -size // 2])


def test_bytes_after_a_body_are_the_next_request(site: Site) -> None:
    with site.connect() as connection:
        connection.send(site.put(key="followed") + b"more than was declared\r\n\r\n")
        assert connection.receive().status == 200
        assert_refused(connection.receive(), 400, "BadRequest")
        assert connection.is_ended()
    assert site.ask(site.signed("GET", f"/{BUCKET}/followed")).body == BODY
    assert site.ask(site.signed("DELETE", f"/{BUCKET}/followed")).status == 204


def test_request_behind_a_chunked_body_is_a_request_of_its_own(site: Site) -> None:
    body = b"<Delete><Object><Key>absent</Key></Object></Delete>"
    headers = site.signer.headers("POST", f"/{BUCKET}?delete", {"x-amz-checksum-sha256": _sha256(body)}, body)
    del headers["content-length"]
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    first = request_bytes("POST", f"/{BUCKET}?delete", headers | {"transfer-encoding": "chunked"}, chunks)
    with site.connect() as connection:
        connection.send(first + site.signed("GET", f"/{BUCKET}/{KEPT}"))
        assert b"<Deleted>" in connection.receive().body
        assert connection.receive().body == b"kept bytes"


@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\r\n" * 9])
def test_blank_lines_before_a_request_are_passed_over(site: Site, blank: bytes) -> None:
    request = site.signed("GET", f"/{BUCKET}/{KEPT}")
    with site.connect() as connection:
        connection.send(blank)
        connection.send(blank + request + blank + request)
        assert connection.receive().body == b"kept bytes"
        assert connection.receive().body == b"kept bytes"


def test_offer_to_upgrade_is_passed_over(site: Site) -> None:
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"}
    headers = site.signer.headers("PUT", f"/{BUCKET}/{KEPT}", None, b"kept bytes") | offer
    with site.connect() as connection:
        assert connection.ask(request_bytes("PUT", f"/{BUCKET}/{KEPT}", headers, b"kept bytes")).status == 200
        headers = site.signer.headers("GET", f"/{BUCKET}/{KEPT}") | offer
        assert connection.ask(request_bytes("GET", f"/{BUCKET}/{KEPT}", headers)).body == b"kept bytes"


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchanged")
@cases(
    ("key of 1025 bytes", 400, "KeyTooLongError", lambda s: s.put(key="k" * 1025)),
    ("key of 1025 bytes in 3-byte letters", 400, "KeyTooLongError", lambda s: s.put(key="%E2%82%AC" * 341 + "kk")),
    ("nul", 400, "InvalidURI", lambda s: s.put(key="a%00b")),
    ("read nul", 400, "InvalidURI", lambda s: s.signed("GET", f"/{BUCKET}/a%00b")),
    ("delete nul", 400, "InvalidURI", lambda s: s.signed("DELETE", f"/{BUCKET}/a%00b")),
    ("copy from nul", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/a%00b"}, b"")),
    ("control character echoed", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?max-keys=%01%1B")),
    ("bytes that are not utf-8", 400, "InvalidURI", lambda s: s.put(key="%FF%FE")),
    ("raw bytes", 400, "BadRequest", lambda s: s.put(key="\udcff")),
    ("overlong utf-8", 400, "InvalidURI", lambda s: s.put(key="%C0%AF")),
    ("surrogate", 400, "InvalidURI", lambda s: s.put(key="%ED%A0%80")),
    ("percent alone", 400, "InvalidURI", lambda s: s.put(key="a%")),
    ("percent and no digits", 400, "InvalidURI", lambda s: s.put(key="%zz")),
    ("no bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "//key", None, BODY)),
    ("list no bucket", 400, "InvalidBucketName", lambda s: s.signed("GET", "//key")),
    ("post to no bucket", 400, "InvalidBucketName", lambda s: s.signed("POST", "//key", None, BODY)),
    ("upper case bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/UPPER")),
    ("short bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/ab")),
    ("long bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", f"/{'b' * 64}")),
    ("address as bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/192.168.0.1")),
    ("dots as bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/..")),
    ("nul in bucket", 400, "InvalidURI", lambda s: s.signed("PUT", "/buck%00et")),
    ("slash in bucket", 400, "InvalidBucketName", lambda s: s.signed("PUT", "/buck%2Fet")),
    ("object of a bucket with nul", 400, "InvalidURI", lambda s: s.signed("GET", "/buck%00et/key")),
    ("absent bucket", 404, "NoSuchBucket", lambda s: s.signed("PUT", "/bad-input-absent/key", None, BODY)),
    ("absent key", 404, "NoSuchKey", lambda s: s.signed("GET", f"/{BUCKET}/absent")),
    ("version that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}/{KEPT}?versionId=%FF")),
    ("prefix that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?prefix=%FF")),
    ("marker that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?marker=%ED%A0%80")),
    ("raw bytes in a parameter", 400, "BadRequest", lambda s: s.signed("GET", f"/{BUCKET}?prefix=\udcff")),
    ("nul in a prefix", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?prefix=%00")),
    ("nul in a marker", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?list-type=2&start-after=a%00")),
    ("nul in an upload", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}/a?uploadId=%00")),
    ("parameter that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("GET", f"/{BUCKET}?%FF=1")),
    ("upload that is not utf-8", 400, "InvalidArgument", lambda s: s.signed("DELETE", f"/{BUCKET}/a?uploadId=%FF")),
)
def test_name_that_cannot_be_is_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


ODD_NAMES: Final = (
    "../../../../etc/passwd",
    "..",
    ".",
    "a/../b",
    "a/./b",
    "//a",
    "a//b",
    "a/",
    "/",
    "%2e%2e/%2E%2E",
    "%2F%2F",
    "caf\u00e9",
    "cafe\u0301",
    "\u65e5\u672c\u8a9e",
    "\U0001f600",
    "a b+c%20d",
    "a%0Ab%0Dc%09d",
    "%01%1F%7F",
    "%EF%BF%BE",
    "a?b",
    "con",
    "x" * 1024,
    "\u20ac" * 341,
)


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name)[1:30].replace("\\", "_"))
def test_path_tricks_are_only_names(site: Site, name: str) -> None:
    """A key is what its path decodes to, whatever it looks like: it is stored, listed and removed under that name."""
    from urllib.parse import quote, unquote

    raw = quote(name.replace("?", "%3F"), safe="/%+.~")
    key = unquote(raw)
    with site.connect() as connection:
        assert connection.ask(site.put(key=raw)).status == 200
        assert connection.ask(site.signed("GET", f"/{BUCKET}/{raw}")).body == BODY
        listed = connection.ask(site.signed("GET", f"/{BUCKET}?list-type=2&encoding-type=url"))
        keys = [
            unquote(found.text or "") for found in ElementTree.fromstring(listed.body).iter() if _ends(found, "Key")
        ]
        assert sorted(keys) == sorted([key, KEPT])
        assert connection.ask(site.signed("DELETE", f"/{BUCKET}/{raw}")).status == 204
        assert connection.ask(site.signed("GET", f"/{BUCKET}/{raw}")).status == 404
    outside = site.server.data.parent
    assert {path.name for path in outside.iterdir()} == {site.server.data.name, site.server.log.name}


def _ends(element: ElementTree.Element, name: str) -> bool:
    return element.tag.endswith(f"}}{name}")


# -- signatures ---------------------------------------------------------------------------------------------------


def _altered(alter: Callable[[dict[str, str]], object]) -> Callable[[Site], bytes]:
    """A good request whose headers were changed after they were signed."""

    def make(site: Site) -> bytes:
        headers = site.signer.headers("PUT", f"/{BUCKET}/new", {"x-amz-meta-a": "b"}, BODY)
        alter(headers)
        return request_bytes("PUT", f"/{BUCKET}/new", headers, BODY)

    return make


def _authorization(change: Callable[[str], str]) -> Callable[[Site], bytes]:
    return _altered(lambda headers: headers.update(authorization=change(headers["authorization"])))


def _redirected(method: str, target: str) -> Callable[[Site], bytes]:
    """A good signature on another request."""

    def make(site: Site) -> bytes:
        headers = site.signer.headers("PUT", f"/{BUCKET}/new?tagging", None, BODY)
        return request_bytes(method, target, headers, BODY)

    return make


def _by(**claims: object) -> Callable[[Site], bytes]:
    """A request signed by somebody else, or at another time."""
    from dataclasses import replace

    return lambda site: replace(site.signer, **claims).request("PUT", f"/{BUCKET}/new", None, BODY)  # type: ignore[arg-type]  # names and types of the fields are in the table


@pytest.mark.usefixtures("unchanged")
@cases(
    ("wrong secret", 403, "SignatureDoesNotMatch", _by(secret_key="another")),
    ("unknown key", 403, "InvalidAccessKeyId", _by(access_key="LKBDNOSUCHKEYATALL00")),
    ("clock behind", 403, "RequestTimeTooSkewed", _by(offset=timedelta(minutes=-16))),
    ("clock ahead", 403, "RequestTimeTooSkewed", _by(offset=timedelta(minutes=16))),
    ("another service", 400, "AuthorizationHeaderMalformed", _by(service="ec2")),
    ("altered query", 403, "SignatureDoesNotMatch", _redirected("PUT", f"/{BUCKET}/new?legal-hold")),
    ("altered key", 403, "SignatureDoesNotMatch", _redirected("PUT", f"/{BUCKET}/other?tagging")),
    ("altered method", 403, "SignatureDoesNotMatch", _redirected("POST", f"/{BUCKET}/new?tagging")),
    ("altered header", 403, "SignatureDoesNotMatch", _altered(lambda h: h.update({"x-amz-meta-a": "c"}))),
    ("removed header", 403, "SignatureDoesNotMatch", _altered(lambda h: h.pop("x-amz-meta-a"))),
    ("added header", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-acl": "private"}))),
    ("no date", 403, "AccessDenied", _altered(lambda h: h.pop("x-amz-date"))),
    ("date in words", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "yesterday"}))),
    ("date in strange digits", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "²0260101T000000Z"}))),
    ("date of month 13", 403, "AccessDenied", _altered(lambda h: h.update({"x-amz-date": "20261301T000000Z"}))),
    ("no content hash", 400, "InvalidRequest", _altered(lambda h: h.pop("x-amz-content-sha256"))),
    ("basic", 400, "InvalidArgument", _authorization(lambda a: "Basic dXNlcjpwYXNz")),
    ("bearer", 400, "InvalidArgument", _authorization(lambda a: "Bearer token")),
    ("version 2", 400, "InvalidRequest", _authorization(lambda a: "AWS LKBDTESTROOTACCESSKY:c2lnbmF0dXJl")),
    ("version 4a", 400, "InvalidRequest", _authorization(lambda a: a.replace("HMAC", "ECDSA-P256"))),
    ("empty", 400, "InvalidArgument", _altered(lambda h: h.update(authorization=""))),
    ("none", 403, "AccessDenied", _altered(lambda h: h.pop("authorization"))),
    ("scheme alone", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: "AWS4-HMAC-SHA256 ")),
    ("nonsense", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: "AWS4-HMAC-SHA256 Signature=" + HEX)),
    (
        "no credential",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("Credential=", "Cred=")),
    ),
    (
        "no signed headers",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("SignedHeaders=", "Signed=")),
    ),
    ("no signature", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a.partition(", Signature")[0])),
    ("short signature", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a[:-1])),
    ("signature of zeros", 403, "SignatureDoesNotMatch", _authorization(lambda a: a[:-64] + HEX)),
    ("signature not ascii", 403, "SignatureDoesNotMatch", _authorization(lambda a: a[:-64] + "é" * 64)),
    (
        "scope cut short",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("/aws4_request", "")),
    ),
    (
        "scope of another day",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("/20", "/19", 1)),
    ),
    (
        "host not signed",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("SignedHeaders=host;", "SignedHeaders=")),
    ),
    (
        "header twice",
        400,
        "AuthorizationHeaderMalformed",
        lambda s: s.put().replace(b"\r\n\r\n", b"\r\nauthorization: AWS4-HMAC-SHA256 x\r\n\r\n", 1),
    ),
    (
        "key that is not utf-8",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("LKBD", "\udcff")),
    ),
    ("key that is not ascii", 400, "AuthorizationHeaderMalformed", _authorization(lambda a: a.replace("LKBD", "é"))),
    (
        "region that is not utf-8",
        400,
        "AuthorizationHeaderMalformed",
        _authorization(lambda a: a.replace("us-", "\udcff")),
    ),
    ("headers that are not utf-8", 403, "AccessDenied", _authorization(lambda a: a.replace("x-amz-meta-a", "\udcff"))),
    ("token that is not utf-8", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "\udcff"})),
    ("token that is not ascii", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "é" * 50})),
    ("hash that is not utf-8", 400, "InvalidArgument", lambda s: s.put(payload_hash="\udcff" * 44)),
    ("both header and query", 400, "InvalidArgument", lambda s: _both_mechanisms(s)),
    ("unknown token", 400, "InvalidToken", lambda s: s.put({"x-amz-security-token": "nonsense"})),
)
def test_request_that_is_not_rightly_signed_is_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


def _both_mechanisms(site: Site) -> bytes:
    target = site.signer.presign("PUT", f"/{BUCKET}/new", 60)
    return site.signer.request("PUT", target, None, BODY)


def _presigned(seconds: int | str, change: Callable[[str], str] = str, **fields: str) -> Callable[[Site], bytes]:
    def make(site: Site) -> bytes:
        offset = timedelta(seconds=int(fields.get("offset", "0")))
        named = {name: value for name, value in fields.items() if name != "offset"}
        target = site.signer.shifted(offset).presign("PUT", f"/{BUCKET}/new", seconds, **named)
        return request_bytes("PUT", change(target), {"host": site.signer.host, "content-length": "0"})

    return make


@pytest.mark.usefixtures("unchanged")
@cases(
    ("past its time", 403, "AccessDenied", _presigned(60, offset="-61")),
    ("before its time", 403, "AccessDenied", _presigned(60, offset="1000")),
    ("for no time", 403, "AccessDenied", _presigned(0)),
    ("for a negative time", 400, "AuthorizationQueryParametersError", _presigned(-5)),
    ("for over a week", 400, "AuthorizationQueryParametersError", _presigned(604_801)),
    ("for a year of digits", 400, "AuthorizationQueryParametersError", _presigned("9" * 5000)),
    ("time in words", 400, "AuthorizationQueryParametersError", _presigned("soon")),
    ("time in strange digits", 400, "AuthorizationQueryParametersError", _presigned("²")),
    ("time with many signs", 400, "AuthorizationQueryParametersError", _presigned("--5")),
    ("date in words", 400, "AuthorizationQueryParametersError", _presigned(60, Date="yesterday")),
    ("date in strange digits", 400, "AuthorizationQueryParametersError", _presigned(60, Date="²0260101T000000Z")),
    ("another algorithm", 400, "AuthorizationQueryParametersError", _presigned(60, Algorithm="AWS4-ECDSA-P256-SHA256")),
    ("credential of nul", 400, "InvalidArgument", _presigned(60, Credential="\0/20260101/r/s3/aws4_request")),
    ("credential cut short", 400, "AuthorizationQueryParametersError", _presigned(60, Credential="KEY/20260101")),
    ("host not signed", 400, "AuthorizationQueryParametersError", _presigned(60, SignedHeaders="x-amz-date")),
    ("header not sent", 403, "SignatureDoesNotMatch", _presigned(60, SignedHeaders="host;x-amz-acl")),
    (
        "no signature",
        400,
        "AuthorizationQueryParametersError",
        _presigned(60, lambda target: target.partition("&X-Amz-Signature")[0]),
    ),
    ("altered key", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target.replace("/new", "/other"))),
    ("longer time", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target.replace("=60&", "=600&"))),
    ("added parameter", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target + "&uploads=")),
    ("signature cut short", 403, "SignatureDoesNotMatch", _presigned(60, lambda target: target[:-5])),
    (
        "version 2",
        400,
        "InvalidRequest",
        lambda s: s.raw("PUT", f"/{BUCKET}/new?AWSAccessKeyId=a&Expires=1&Signature=b"),
    ),
)
def test_url_that_is_not_rightly_signed_is_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


@pytest.mark.usefixtures("unchanged")
def test_url_for_reading_does_not_write(site: Site) -> None:
    target = site.signer.presign("GET", f"/{BUCKET}/{KEPT}", 60)
    host = {"host": site.signer.host}
    assert site.ask(request_bytes("GET", target, host)).body == b"kept bytes"
    for method in ("PUT", "DELETE", "POST"):
        answer = site.ask(request_bytes(method, target, host | {"content-length": "0"}))
        assert_refused(answer, 403, "SignatureDoesNotMatch")


@pytest.mark.usefixtures("unchanged")
def test_url_that_was_good_is_refused_when_replayed_past_its_time(site: Site) -> None:
    target = site.signer.shifted(timedelta(seconds=-58)).presign("GET", f"/{BUCKET}/{KEPT}", 60)
    request = request_bytes("GET", target, {"host": site.signer.host})
    with site.connect() as connection:
        assert connection.ask(request).body == b"kept bytes"
        while (answer := connection.ask(request)).status == 200:
            assert answer.body == b"kept bytes"
    assert_refused(answer, 403, "AccessDenied")
    assert b"Request has expired" in answer.body


# -- digests, limits, parameters ----------------------------------------------------------------------------------


def _sha256(body: bytes) -> str:
    import base64

    return base64.b64encode(hashlib.sha256(body).digest()).decode()


@pytest.mark.usefixtures("unchanged")
@cases(
    ("hash of other bytes", 400, "XAmzContentSHA256Mismatch", lambda s: s.put(payload_hash=HEX)),
    ("hash cut short", 400, "InvalidArgument", lambda s: s.put(payload_hash="abc")),
    ("hash not hexadecimal", 400, "InvalidArgument", lambda s: s.put(payload_hash="z" * 64)),
    ("unknown kind of stream", 501, "NotImplemented", lambda s: s.put(payload_hash="STREAMING-NONSENSE")),
    (
        "stream of no stated length",
        411,
        "MissingContentLength",
        lambda s: s.put(payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    (
        "stream of a length in words",
        411,
        "MissingContentLength",
        lambda s: s.put({"x-amz-decoded-content-length": "many"}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    (
        "stream of a length of 5000 digits",
        400,
        "EntityTooLarge",
        lambda s: s.put(
            {"x-amz-decoded-content-length": "9" * 5000}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        ),
    ),
    (
        "stream over the limit",
        400,
        "EntityTooLarge",
        lambda s: s.put({"x-amz-decoded-content-length": "9" * 15}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    ("md5 malformed", 400, "InvalidDigest", lambda s: s.put({"content-md5": "nonsense"})),
    ("md5 of another length", 400, "InvalidDigest", lambda s: s.put({"content-md5": "YWJj"})),
    ("md5 not ascii", 400, "InvalidDigest", lambda s: s.put({"content-md5": "é" * 12})),
    ("md5 wrong", 400, "BadDigest", lambda s: s.put({"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})),
    ("crc wrong", 400, "BadDigest", lambda s: s.put({"x-amz-checksum-crc32": "AAAAAA=="})),
    ("sha wrong", 400, "BadDigest", lambda s: s.put({"x-amz-checksum-sha256": _sha256(b"other")})),
    ("crc malformed", 400, "InvalidRequest", lambda s: s.put({"x-amz-checksum-crc32": "nonsense"})),
    ("crc not ascii", 400, "InvalidRequest", lambda s: s.put({"x-amz-checksum-crc32": "é"})),
    (
        "two checksums",
        400,
        "InvalidRequest",
        lambda s: s.put({"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="}),
    ),
    ("unknown checksum", 400, "InvalidRequest", lambda s: s.put({"x-amz-sdk-checksum-algorithm": "CRC1"})),
    (
        "trailer without stream",
        400,
        "MalformedTrailerError",
        lambda s: s.put({"x-amz-trailer": "x-amz-checksum-crc32"}),
    ),
    ("metadata over 2 kib", 400, "MetadataTooLarge", lambda s: s.put({"x-amz-meta-a": "b" * 2048})),
    (
        "metadata over 2 kib in many",
        400,
        "MetadataTooLarge",
        lambda s: s.put({f"x-amz-meta-{n:03}": "b" * 8 for n in range(200)}),
    ),
    ("metadata that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"x-amz-meta-a": "\udcff"})),
    ("content type that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"content-type": "\udcff"})),
    ("disposition that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"content-disposition": "\udcff"})),
    ("11 tags", 400, "BadRequest", lambda s: s.put({"x-amz-tagging": "&".join(f"k{n}=v" for n in range(11))})),
    ("long tag", 400, "InvalidTag", lambda s: s.put({"x-amz-tagging": f"{'k' * 129}=v"})),
    ("tags that are not utf-8", 400, "InvalidArgument", lambda s: s.put({"x-amz-tagging": "a=%FF"})),
    ("raw tags that are not utf-8", 400, "InvalidTag", lambda s: s.put({"x-amz-tagging": "a=\udcff"})),
    ("storage class", 400, "InvalidStorageClass", lambda s: s.put({"x-amz-storage-class": "NONSENSE"})),
    ("access list", 400, "AccessControlListNotSupported", lambda s: s.put({"x-amz-acl": "public-read"})),
    ("encryption", 400, "InvalidArgument", lambda s: s.put({"x-amz-server-side-encryption": "ROT13"})),
    ("lock mode alone", 400, "InvalidArgument", lambda s: s.put({"x-amz-object-lock-mode": "GOVERNANCE"})),
    (
        "lock until words",
        400,
        "InvalidArgument",
        lambda s: s.put(
            {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "the day after tomorrow"}
        ),
    ),
    ("copy from nowhere", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": "nonsense"}, b"")),
    ("copy of what is absent", 404, "NoSuchKey", lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/absent"}, b"")),
    ("copy of bytes that are no name", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": "/a/%FF"}, b"")),
    (
        "copy of a version that is not utf-8",
        400,
        "InvalidArgument",
        lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/{KEPT}?versionId=\udcff"}, b""),
    ),
    (
        "copy with an unknown directive",
        400,
        "InvalidArgument",
        lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-metadata-directive": "EAT"}, b""),
    ),
    (
        "condition on a size in words",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-size": "big"}),
    ),
    (
        "condition on a size in strange digits",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-size": "²"}),
    ),
    (
        "condition on a time in words",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-last-modified-time": "noon"}),
    ),
)
def test_headers_that_do_not_hold_are_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


def _get(target: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    return lambda site: site.signed("GET", target.replace("UPLOAD", site.upload), extra)


def _part(number: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    return lambda site: site.signed(
        "PUT", f"/{BUCKET}/upload?partNumber={number}&uploadId={site.upload}", extra, b"" if extra else BODY
    )


def _complete(parts: str, extra: Mapping[str, str] | None = None) -> Callable[[Site], bytes]:
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return lambda site: site.signed("POST", f"/{BUCKET}/upload?uploadId={site.upload}", extra, body)


_ABSENT_PART: Final = f"<Part><PartNumber>1</PartNumber><ETag>{'0' * 32}</ETag></Part>"


@pytest.mark.usefixtures("unchanged")
@cases(
    ("page of words", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=many")),
    ("negative page", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=-1")),
    ("page with many signs", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=--1")),
    ("page of strange digits", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=%C2%B2")),
    ("page over all bounds", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=99999999999")),
    ("page of 5000 digits", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys={'9' * 5000}")),
    ("page of a fraction", 400, "InvalidArgument", _get(f"/{BUCKET}?max-keys=1.5")),
    ("page of versions", 400, "InvalidArgument", _get(f"/{BUCKET}?versions&max-keys=x")),
    ("page of uploads", 400, "InvalidArgument", _get(f"/{BUCKET}?uploads&max-uploads=x")),
    ("page of parts", 400, "InvalidArgument", _get(f"/{BUCKET}/upload?uploadId=UPLOAD&max-parts=x")),
    ("page of buckets", 400, "InvalidArgument", _get("/?max-buckets=x")),
    ("encoding", 400, "InvalidArgument", _get(f"/{BUCKET}?encoding-type=rot13")),
    ("token", 400, "InvalidArgument", _get(f"/{BUCKET}?list-type=2&continuation-token=nonsense")),
    ("empty token", 400, "InvalidArgument", _get(f"/{BUCKET}?list-type=2&continuation-token=")),
    ("token of buckets", 400, "InvalidArgument", _get("/?continuation-token=nonsense")),
    ("version marker alone", 400, "InvalidArgument", _get(f"/{VERSIONED}?versions&version-id-marker=abc")),
    ("empty version", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?versionId=")),
    ("unknown version", 404, "NoSuchVersion", _get(f"/{VERSIONED}/{KEPT}?versionId=nonsense")),
    ("part 0 of an object", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber=0")),
    ("part of strange digits", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber=%C2%B2")),
    ("part of 5000 digits", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?partNumber={'9' * 5000}")),
    ("range past the end", 416, "InvalidRange", _get(f"/{BUCKET}/{KEPT}", {"range": "bytes=100-"})),
    ("range far past the end", 416, "InvalidRange", _get(f"/{BUCKET}/{KEPT}", {"range": f"bytes={'9' * 18}-"})),
    ("override in lines", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?response-content-type=a%0D%0Ax-evil:%201")),
    ("override not utf-8", 400, "InvalidArgument", _get(f"/{BUCKET}/{KEPT}?response-content-type=%FF")),
    ("attributes of nothing", 400, "InvalidRequest", _get(f"/{BUCKET}/{KEPT}?attributes")),
    (
        "attributes unknown",
        400,
        "InvalidArgument",
        _get(f"/{BUCKET}/{KEPT}?attributes", {"x-amz-object-attributes": "Nonsense"}),
    ),
    ("part number 0", 400, "InvalidArgument", _part("0")),
    ("part number 10001", 400, "InvalidArgument", _part("10001")),
    ("part number in words", 400, "InvalidArgument", _part("one")),
    ("part number in strange digits", 400, "InvalidArgument", _part("%C2%B2")),
    ("part number of 5000 digits", 400, "InvalidArgument", _part("9" * 5000)),
    (
        "part copied from strange digits",
        400,
        "InvalidArgument",
        _part("1", {"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-copy-source-range": "bytes=²-³"}),
    ),
    (
        "part copied past the end",
        400,
        "InvalidArgument",
        _part("1", {"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-copy-source-range": "bytes=0-99"}),
    ),
    ("unknown upload", 404, "NoSuchUpload", _get(f"/{BUCKET}/upload?uploadId=nonsense")),
    ("upload of another key", 404, "NoSuchUpload", _get(f"/{BUCKET}/{KEPT}?uploadId=UPLOAD")),
    ("complete with no parts", 400, "MalformedXML", _complete("")),
    ("complete with an absent part", 400, "InvalidPart", _complete(_ABSENT_PART)),
    ("complete with part 0", 400, "InvalidArgument", _complete(_ABSENT_PART.replace(">1<", ">0<"))),
    ("complete out of order", 400, "InvalidPartOrder", _complete(_ABSENT_PART.replace(">1<", ">2<") + _ABSENT_PART)),
    ("complete with a size in words", 400, "InvalidRequest", _complete(_ABSENT_PART, {"x-amz-mp-object-size": "x"})),
    (
        "complete with a size in strange digits",
        400,
        "InvalidRequest",
        _complete(_ABSENT_PART, {"x-amz-mp-object-size": "²"}),
    ),
    ("deletion of nothing", 400, "MalformedXML", lambda s: s.signed("POST", f"/{BUCKET}?delete", None, b"<Delete/>")),
    (
        "deletion of 1001",
        400,
        "MalformedXML",
        lambda s: s.signed(
            "POST", f"/{BUCKET}?delete", None, b"<Delete>%b</Delete>" % (b"<Object><Key>a</Key></Object>" * 1001)
        ),
    ),
    (
        "deletion without digest",
        400,
        "InvalidRequest",
        lambda s: s.signed("POST", f"/{BUCKET}?delete", None, b"<Delete/>", payload_hash=UNSIGNED),
    ),
    ("website", 404, "NoSuchWebsiteConfiguration", _get(f"/{BUCKET}?website")),
    ("put website", 501, "NotImplemented", lambda s: s.signed("PUT", f"/{BUCKET}?website", None, b"<a/>")),
    ("torrent", 501, "NotImplemented", _get(f"/{BUCKET}/{KEPT}?torrent")),
    ("put of a page", 405, "MethodNotAllowed", lambda s: s.signed("PUT", f"/{BUCKET}?versions", None, b"")),
    ("post to a key", 405, "MethodNotAllowed", lambda s: s.signed("POST", f"/{BUCKET}/{KEPT}", None, b"")),
    ("patch", 405, "MethodNotAllowed", lambda s: s.signed("PATCH", f"/{BUCKET}/{KEPT}")),
    ("delete of everything", 405, "MethodNotAllowed", lambda s: s.signed("DELETE", "/")),
    ("delete of a bucket in use", 409, "BucketNotEmpty", lambda s: s.signed("DELETE", f"/{BUCKET}/")),
)
def test_parameters_that_do_not_hold_are_refused(site: Site, case: Case) -> None:
    assert_refused(site.ask(case.make(site)), case.status, case.code)


@pytest.mark.parametrize(
    "text", ["bytes=²-", "bytes=-²", "bytes=a-b", "bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes"]
)
def test_range_that_is_not_understood_is_as_if_absent(site: Site, text: str) -> None:
    answer = site.ask(site.signed("GET", f"/{BUCKET}/{KEPT}", {"range": text}))
    assert (answer.status, answer.body) == (200, b"kept bytes")


@pytest.mark.parametrize("duration", ["%C2%B2", "9" * 5000, "-1", "--1", "soon"])
def test_session_of_no_possible_length_is_refused(site: Site, duration: str) -> None:
    body = f"Action=AssumeRole&Version=2011-06-15&DurationSeconds={duration}".encode()
    answer = site.ask(site.signed("POST", "/", None, body))
    assert (answer.status, answer.code) == (400, "ValidationError")
    assert answer.document_request_id == answer.request_id != ""


@pytest.mark.usefixtures("unchanged")
def test_refused_head_request_has_no_body(site: Site) -> None:
    with site.connect() as connection:
        answer = connection.ask(site.signed("HEAD", f"/{BUCKET}/absent"), is_head=True)
        assert (answer.status, answer.request_id != "") == (404, True)
        assert connection.ask(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"


# -- the life of a connection -------------------------------------------------------------------------------------


def test_head_that_never_ends_does_not_block_others(site: Site) -> None:
    slow = [site.connect() for _ in range(50)]
    try:
        for connection in slow:
            connection.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow")
        for _ in range(20):
            assert site.ask(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"
        for connection in slow:
            connection.send(b": 1\r\n\r\n")
            assert_refused(connection.receive(), 403, "AccessDenied")
    finally:
        for connection in slow:
            connection.close()


def test_requests_sent_ahead_are_answered_in_order(site: Site) -> None:
    requests = []
    for number in range(20):
        requests.append(site.signed("GET", f"/{BUCKET}/absent-{number}"))
        requests.append(site.signed("GET", f"/{BUCKET}/{KEPT}"))
        requests.append(site.put(key=f"ahead-{number}", body=b"x" * number * 5000))
    with site.connect() as connection:
        connection.send(b"".join(requests))
        for number in range(20):
            absent = connection.receive()
            assert_refused(absent, 404, "NoSuchKey")
            assert f"/absent-{number}<".encode() in absent.body
            assert connection.receive().body == b"kept bytes"
            assert connection.receive().etag == hashlib.md5(b"x" * number * 5000).hexdigest()
        for number in range(20):
            assert connection.ask(site.signed("DELETE", f"/{BUCKET}/ahead-{number}")).status == 204


def test_refused_request_is_not_asked_for_its_body(site: Site) -> None:
    request = site.put({"expect": "100-continue"}, payload_hash=UNSIGNED)
    head = request[: -len(BODY)].replace(b"Signature=", b"Signature=0", 1)
    with site.connect() as connection:
        connection.send(head)
        assert connection.receive().status == 400
        assert connection.is_ended()
    wrong = site.signer.headers("PUT", f"/{BUCKET}/new", {"content-length": "99"}, payload_hash=HEX)
    wrong["authorization"] = wrong["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", wrong | {"expect": "100-continue"}))
        answer = connection.receive()
        assert_refused(answer, 403, "SignatureDoesNotMatch")
        assert answer.headers["connection"] == "close"
        assert connection.is_ended()


def test_good_request_is_asked_for_its_body(site: Site) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/continued", None, BODY) | {"expect": "100-continue"}
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/continued", headers))
        assert connection.receive().status == 100
        connection.send(BODY)
        assert connection.receive().status == 200
        assert connection.ask(site.signed("GET", f"/{BUCKET}/continued")).body == BODY
        assert connection.ask(site.signed("DELETE", f"/{BUCKET}/continued")).status == 204


@pytest.mark.parametrize("size", [10, 20_000])
def test_connection_goes_on_after_a_refusal_with_a_small_body_unread(site: Site, size: int) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", None, b"x" * size)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers))
        assert_refused(connection.receive(), 403, "SignatureDoesNotMatch")
        connection.send(b"x" * size)
        assert connection.ask(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"


def test_answer_arrives_though_a_large_body_stays_unread(site: Site) -> None:
    size = 20 << 20
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", {"content-length": str(size)}, payload_hash=UNSIGNED)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers), bytes(size))
        answer = connection.receive()
        assert_refused(answer, 403, "SignatureDoesNotMatch")
        assert answer.headers["connection"] == "close"
