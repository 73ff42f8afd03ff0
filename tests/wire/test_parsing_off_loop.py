"""Bodies over 64 KiB are parsed while the event loop goes on.

The parser is made to wait for the loop: were it on the loop, neither would ever go on, and the wait would fail.
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


class Turns:
    """Whether the loop takes a turn while a parser waits for one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.taken: list[bool] = []

    def wait(self) -> None:
        """Called where a body is parsed: wait until the loop has taken a turn."""
        turn = threading.Event()
        self._loop.call_soon_threadsafe(turn.set)
        on_the_loop = self._loop is asyncio._get_running_loop()
        self.taken.append(not on_the_loop and turn.wait(GUARD_SECONDS))

    def watched(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        """The same parser, which waits before it begins."""

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
async def turns() -> Turns:
    return Turns(asyncio.get_running_loop())


@pytest.fixture
def watched_xml(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document of XML waits for a turn of the loop."""
    monkeypatch.setattr(expat, "ParserCreate", turns.watched(expat.ParserCreate))


def padded(document: bytes) -> bytes:
    """The same document, longer than what is parsed on the loop."""
    return document.rstrip(b">") + b" " * INLINE_BYTES + b">"


def padded_json(document: object) -> bytes:
    """The same for JSON."""
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
async def test_the_loop_goes_on_while_xml_is_parsed(
    lake: Lake, turns: Turns, request_line: tuple[str, str], document: bytes
) -> None:
    method, path = request_line
    answer = await lake.send(method, path, padded(document))
    assert answer.status < 500, answer
    assert turns.taken == [True]


TABLES = "/lake/namespaces/ns/tables"
COMMIT: dict[str, object] = {"requirements": [], "updates": []}


@pytest.mark.parametrize(
    ("path", "document", "parser"),
    [
        (f"{TABLES}/t", COMMIT, "tables._read_commit"),
        (TABLES, {"name": "u", "schema": SCHEMA}, "tables.parse_create_table"),
        ("/lake/namespaces/ns/views", {"name": "v"}, "views.parse_create_view"),
        ("/lake/namespaces/ns/views/v", COMMIT, "views._read_replacement"),
        ("/lake/transactions/commit", {"table-changes": []}, "transactions._read_changes"),
        (f"{TABLES}/t/plan", {"filter": {"type": "true"}}, "plans.parse_document"),
        (f"{TABLES}/t/metrics", {"report-type": "scan-report", "table-name": "t"}, "reports.parse_document"),
    ],
)
async def test_the_loop_goes_on_while_json_is_parsed(
    lake: Lake, turns: Turns, monkeypatch: pytest.MonkeyPatch, path: str, document: object, parser: str
) -> None:
    assert (await lake.table()).status == 200
    module = importlib.import_module(f"lakebed.wire.iceberg.handlers.{parser.split('.')[0]}")
    name = parser.split(".")[1]
    monkeypatch.setattr(module, name, turns.watched(getattr(module, name)))
    body = json.dumps(document).encode() + b" " * INLINE_BYTES
    answer = await lake.send("POST", "/iceberg/v1" + path, body)
    assert answer.status < 500, answer
    assert turns.taken == [True]


@pytest.mark.usefixtures("watched_xml")
async def test_deletions_of_many_bytes_by_who_may_leave_the_loop(lake: Lake, turns: Turns) -> None:
    keys: Keys = await lake.user("deleter", allow("s3:DeleteObject", resource=f"arn:aws:s3:::{BUCKET}/*"))
    body = b"<Delete>" + b"<a/>" * (2 * 1024 * 1024 - 10) + b"</Delete>"
    answer = await lake.send("POST", f"/{BUCKET}?delete", body, keys=keys)
    assert (answer.status, b"MalformedXML" in answer.body) == (400, True)
    assert turns.taken == [True]


async def test_a_small_body_is_parsed_where_it_is() -> None:
    assert await parse_body(lambda _: threading.get_ident(), b"x" * INLINE_BYTES) == threading.get_ident()
    assert await parse_body(lambda _: threading.get_ident(), b"x" * (INLINE_BYTES + 1)) != threading.get_ident()


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each large JSON document that is decoded, whether that is on the event loop."""
    found: list[bool] = []
    decode = msgspec.json.decode

    def watched(document: bytes, **named: Any) -> Any:
        if len(document) > INLINE_BYTES:
            found.append(asyncio._get_running_loop() is not None)
        return decode(document, **named)

    monkeypatch.setattr(msgspec.json, "decode", watched)
    return found


async def test_no_route_of_a_catalog_decodes_a_large_document_on_the_loop(lake: Lake, on_the_loop: list[bool]) -> None:
    assert (await lake.table()).status == 200
    read = []
    for method, path in ROUTES:
        answer = await lake.send(method, path, padded_json({"name": "x"}))
        assert answer.status < 500, (method, path, answer)
        assert True not in on_the_loop, (method, path)
        read += [path] * bool(on_the_loop)
        on_the_loop.clear()
    assert len(read) > 60


async def test_no_large_document_for_another_catalog_is_decoded_on_the_loop(
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
            answer = await lakes.near.send("POST", f"/iceberg/v1/{CATALOG}{path}", padded_json(document))
            assert answer.status < 500, (path, answer)
            assert on_the_loop, path
            assert True not in on_the_loop, path


@pytest.mark.usefixtures("watched_xml")
async def test_a_large_list_to_sign_is_parsed_off_the_loop(lake: Lake, turns: Turns) -> None:
    assert (await lake.table()).status == 200
    listed = padded(b"<Delete><Object><Key>absent</Key></Object></Delete>").decode()
    asked = {
        "region": "us-east-1",
        "method": "POST",
        "uri": f"http://{HOST}/lake?delete",
        "headers": {},
        "body": listed,
    }
    answer = await lake.send("POST", f"/iceberg/v1{TABLES}/t/sign", json.dumps(asked).encode())
    assert answer.status < 500, answer
    assert turns.taken == [True]
