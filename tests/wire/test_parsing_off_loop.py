"""Bodies over 64 KiB are parsed off the event loop.

The tests make the parser wait for the loop. On the loop, this would be a deadlock, and the wait would fail.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

import msgspec
import pytest

from lakebed.core.json.parsing import INLINE_BYTES, parse_body
from tests.clients.boto import Keys
from tests.wire.iceberg.lake import HOST, SCHEMA, Lake, allow, opened_lake
from tests.wire.iceberg.two_lakes import CATALOG, two_lakes
from tests.wire.json.test_deep_json import ROUTES

GUARD_SECONDS = 30.0
BUCKET = "plain"


class LoopProbe:
    """Records whether the loop runs while a parser waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ran: list[bool] = []

    def wait(self) -> None:
        """Called by parsers: wait until the loop has run a callback."""
        ran = threading.Event()
        self._loop.call_soon_threadsafe(ran.set)
        on_the_loop = self._loop is asyncio._get_running_loop()
        self.ran.append(not on_the_loop and ran.wait(GUARD_SECONDS))

    def watched(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        """The parser, after a wait for the loop."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.wait()
            return parse(*arguments, **named)

        return call


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        await opened.store.bucket(BUCKET)
        await opened.store.put(BUCKET, "key", b"bytes")
        yield opened


@pytest.fixture
async def probe() -> LoopProbe:
    return LoopProbe(asyncio.get_running_loop())


@pytest.fixture
def watched_xml(probe: LoopProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing of each XML document waits for the loop."""
    monkeypatch.setattr(expat, "ParserCreate", probe.watched(expat.ParserCreate))


def padded(document: bytes) -> bytes:
    """The document, longer than those that are parsed on the loop."""
    return document.rstrip(b">") + b" " * INLINE_BYTES + b">"


def padded_json(document: object) -> bytes:
    """A JSON document, longer than those that are parsed on the loop."""
    return json.dumps(document).encode() + b" " * INLINE_BYTES


DOCUMENTS = {
    ("POST", f"/{BUCKET}?delete"): b"<Delete><Object><Key>absent</Key></Object></Delete>",
    ("PUT", f"/{BUCKET}?tagging"): b"<Tagging><TagSet/></Tagging>",
    ("PUT", f"/{BUCKET}?versioning"): b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    ("PUT", f"/{BUCKET}?lifecycle"): b"<LifecycleConfiguration/>",
    ("PUT", f"/{BUCKET}?cors"): b"<CORSConfiguration/>",
    ("PUT", f"/{BUCKET}?encryption"): b"<ServerSideEncryptionConfiguration/>",
    ("PUT", f"/{BUCKET}?publicAccessBlock"): b"<PublicAccessBlockConfiguration/>",
    ("PUT", f"/{BUCKET}?ownershipControls"): b"<OwnershipControls/>",
    ("PUT", f"/{BUCKET}?requestPayment"): b"<RequestPaymentConfiguration/>",
    ("PUT", f"/{BUCKET}?logging"): b"<BucketLoggingStatus/>",
    ("PUT", f"/{BUCKET}?notification"): b"<NotificationConfiguration/>",
    ("PUT", f"/{BUCKET}?object-lock"): b"<ObjectLockConfiguration/>",
    ("PUT", f"/{BUCKET}/key?tagging"): b"<Tagging><TagSet/></Tagging>",
    ("PUT", f"/{BUCKET}/key?retention"): b"<Retention/>",
    ("PUT", f"/{BUCKET}/key?legal-hold"): b"<LegalHold/>",
    ("POST", f"/{BUCKET}/key?uploadId=x"): b"<CompleteMultipartUpload/>",
    ("PUT", "/another"): b"<CreateBucketConfiguration/>",
}


@pytest.mark.usefixtures("watched_xml")
@pytest.mark.parametrize(("request_line", "document"), DOCUMENTS.items(), ids=lambda one: str(one)[:60])
async def test_xml_is_parsed_off_the_loop(
    lake: Lake, probe: LoopProbe, request_line: tuple[str, str], document: bytes
) -> None:
    method, path = request_line
    response = await lake.send(method, path, padded(document))
    assert response.status < 500, response
    assert probe.ran == [True]


TABLES = "/lake/namespaces/ns/tables"
COMMIT: dict[str, object] = {"requirements": [], "updates": []}


@pytest.mark.parametrize(
    ("path", "document", "parser"),
    [
        (f"{TABLES}/t", COMMIT, "iceberg.handlers.tables._read_commit"),
        (TABLES, {"name": "u", "schema": SCHEMA}, "iceberg.handlers.tables.parse_create_table"),
        ("/lake/namespaces/ns/views", {"name": "v"}, "iceberg.handlers.views.parse_create_view"),
        ("/lake/namespaces/ns/views/v", COMMIT, "iceberg.handlers.views._read_replacement"),
        ("/lake/transactions/commit", {"table-changes": []}, "iceberg.handlers.transactions._read_changes"),
        (f"{TABLES}/t/plan", {"filter": {"type": "true"}}, "json.request.parse_document"),
        (f"{TABLES}/t/metrics", {"report-type": "scan-report", "table-name": "t"}, "json.request.parse_document"),
    ],
)
async def test_json_is_parsed_off_the_loop(
    lake: Lake, probe: LoopProbe, monkeypatch: pytest.MonkeyPatch, path: str, document: object, parser: str
) -> None:
    assert (await lake.table()).status == 200
    module_name, _, name = f"lakebed.wire.{parser}".rpartition(".")
    module = importlib.import_module(module_name)
    monkeypatch.setattr(module, name, probe.watched(getattr(module, name)))
    body = json.dumps(document).encode() + b" " * INLINE_BYTES
    response = await lake.send("POST", "/iceberg/v1" + path, body)
    assert response.status < 500, response
    assert probe.ran == [True]


@pytest.mark.usefixtures("watched_xml")
async def test_large_deletion_lists_are_parsed_off_the_loop(lake: Lake, probe: LoopProbe) -> None:
    keys: Keys = await lake.user("deleter", allow("s3:DeleteObject", resource=f"arn:aws:s3:::{BUCKET}/*"))
    body = b"<Delete>" + b"<a/>" * (2 * 1024 * 1024 - 10) + b"</Delete>"
    response = await lake.send("POST", f"/{BUCKET}?delete", body, keys=keys)
    assert (response.status, b"MalformedXML" in response.body) == (400, True)
    assert probe.ran == [True]


async def test_small_body_is_parsed_on_the_loop() -> None:
    assert await parse_body(lambda _: threading.get_ident(), b"x" * INLINE_BYTES) == threading.get_ident()
    assert await parse_body(lambda _: threading.get_ident(), b"x" * (INLINE_BYTES + 1)) != threading.get_ident()


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each decoded large JSON document, whether it was decoded on the event loop."""
    found: list[bool] = []
    decode = msgspec.json.decode

    def watched(document: bytes, **named: Any) -> Any:
        if len(document) > INLINE_BYTES:
            found.append(asyncio._get_running_loop() is not None)
        return decode(document, **named)

    monkeypatch.setattr(msgspec.json, "decode", watched)
    return found


async def test_catalog_routes_decode_large_documents_off_the_loop(lake: Lake, on_the_loop: list[bool]) -> None:
    assert (await lake.table()).status == 200
    read = []
    for method, path in ROUTES:
        response = await lake.send(method, path, padded_json({"name": "x"}))
        assert response.status < 500, (method, path, response)
        assert True not in on_the_loop, (method, path)
        read += [path] * bool(on_the_loop)
        on_the_loop.clear()
    assert len(read) > 60


async def test_large_documents_for_a_federated_catalog_are_decoded_off_the_loop(
    tmp_path: Path, on_the_loop: list[bool]
) -> None:
    create: dict[str, object] = {"name": "u", "schema": SCHEMA}
    report: dict[str, object] = {"report-type": "scan-report", "table-name": "t"}
    async with two_lakes(tmp_path) as lakes:
        await lakes.table()
        for path, document in (
            ("/namespaces", {"namespace": ["more"]}),
            ("/namespaces/ns/tables", create),
            ("/namespaces/ns/tables/t", COMMIT),
            ("/namespaces/ns/tables/t/metrics", report),
            ("/namespaces/ns/views", {"name": "v"}),
            ("/namespaces/ns/views/v", COMMIT),
            ("/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **COMMIT}]}),
        ):
            on_the_loop.clear()
            response = await lakes.near.send("POST", f"/iceberg/v1/{CATALOG}{path}", padded_json(document))
            assert response.status < 500, (path, response)
            assert on_the_loop, path
            assert True not in on_the_loop, path


@pytest.mark.usefixtures("watched_xml")
async def test_large_deletion_list_for_remote_signing_is_parsed_off_the_loop(lake: Lake, probe: LoopProbe) -> None:
    assert (await lake.table()).status == 200
    listed = padded(b"<Delete><Object><Key>absent</Key></Object></Delete>").decode()
    document = {
        "region": "us-east-1",
        "method": "POST",
        "uri": f"http://{HOST}/lake?delete",
        "headers": {},
        "body": listed,
    }
    response = await lake.send("POST", f"/iceberg/v1{TABLES}/t/sign", json.dumps(document).encode())
    assert response.status < 500, response
    assert probe.ran == [True]
