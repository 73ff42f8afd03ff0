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

import pytest

from lakebed.wire.parsing import INLINE_BYTES, parse_body
from tests.clients.boto import Keys
from tests.wire.iceberg.lake import SCHEMA, Lake, allow, opened_lake

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
