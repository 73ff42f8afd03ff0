"""Notification configurations and live listeners, at the edge."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakebed.core.access import ANONYMOUS, Credential, Principal
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unauthenticated
from lakebed.events.live.feed import LiveFeed
from lakebed.events.live.listeners import ListenerRegistry, ReadEvents
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.meta.seam import Reader
from lakebed.wire.aws.authentication import Authenticated, SignatureAuthenticator
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response
from lakebed.wire.s3.app import S3Application
from lakebed.wire.s3.services import S3Services
from tests.objects.stores import DAY_MS, ROOT, ObjectStore, opened_store, user

ARN = "arn:lakebed:sqs:us-east-1:1:webhook"


class Known:
    async def exists(self, tx: Reader, target_id: str) -> bool:
        return target_id == "1:webhook"


class NobodysKeys:
    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        raise Unauthenticated("no such key")


class TakenFor(SignatureAuthenticator):
    """Takes everybody for whoever it was told."""

    who: Principal = ROOT.principal

    async def authenticate(self, request: Request) -> Authenticated:
        return Authenticated(self.who)


@dataclass
class Edge:
    """The S3 edge on a store, with one target."""

    store: ObjectStore
    application: S3Application
    authenticator: TakenFor
    accesses: ReadEvents
    is_there: bool = True

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        who: Principal = ROOT.principal,
    ) -> Response:
        self.authenticator.who = who
        received = RequestBody(len(body))
        if body:
            received.push(body)
            received.finish()
        sent = {"host": "localhost:9000", "content-length": str(len(body)), "user-agent": "test/1", **(headers or {})}
        request = Request(
            method, path, query, sent, received, "http", "127.0.0.1", "R1", may_wait=lambda: self.is_there
        )
        return await self.application(request)

    async def put_rules(self, content: str, **headers: str) -> str:
        """The answer to a configuration: its status, and the error's code."""
        body = f"<NotificationConfiguration>{content}</NotificationConfiguration>".encode()
        return outcome(await self.send("PUT", "/bucket", "notification", body, headers))


def outcome(response: Response) -> str:
    code = re.search(rb"<Code>(\w+)</Code>", response.body)
    return f"{response.status} {code[1].decode()}" if code else str(response.status)


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    clock = ManualClock()
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, clock) as store:
        f = store.object_context
        interests = ListenerRegistry(f.meta, clock, "p")
        accesses = ReadEvents(f.meta, f.outbox, clock, interests)
        authenticator = TakenFor(NobodysKeys(), clock)
        services = S3Services.on(
            replace(f, read_events=accesses),
            authenticator,
            policies=PolicyAuthorizer(clock),
            lifecycle_day_ms=DAY_MS,
            feed=LiveFeed(f.meta, f.outbox, interests),
            targets=Known(),
        )
        application = S3Application(services, None, clock=clock)  # type: ignore[arg-type]  # no tokens are asked for
        await store.bucket("bucket")
        yield Edge(store, application, authenticator, accesses)


def queue(events: str = "s3:ObjectCreated:*", *, name: str = "r", arn: str = ARN, prefix: str = "") -> str:
    chosen = "".join(f"<Event>{event}</Event>" for event in events.split(","))
    rules = f"<FilterRule><Name>prefix</Name><Value>{prefix}</Value></FilterRule>" if prefix else ""
    return (
        f"<QueueConfiguration><Id>{name}</Id><Queue>{arn}</Queue>{chosen}"
        f"<Filter><S3Key>{rules}</S3Key></Filter></QueueConfiguration>"
    )


async def shown(edge: Edge) -> bytes:
    response = await edge.send("GET", "/bucket", "notification")
    assert response.status == 200
    return response.body


# -- configurations ---------------------------------------------------------------------------------------------


async def test_a_configuration_is_put_and_shown_and_cleared(edge: Edge) -> None:
    assert b"QueueConfiguration" not in await shown(edge)
    assert await edge.put_rules(queue()) == "200"
    assert f"<Queue>{ARN}</Queue><Event>s3:ObjectCreated:*</Event>".encode() in await shown(edge)
    assert await edge.put_rules("") == "200"
    assert b"QueueConfiguration" not in await shown(edge)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (queue("s3:ObjectCreated:Teleport"), "400 InvalidArgument"),
        (queue("s3:ObjectCreated:Put,s3:ObjectCreated:Put"), "400 InvalidArgument"),
        (queue(arn="arn:lakebed:sqs:us-east-1:2:webhook"), "400 InvalidArgument"),
        (queue(arn="arn:lakebed:sqs:eu-west-1:1:webhook"), "400 InvalidArgument"),
        (queue(arn="arn:aws:sqs:us-east-1:000000000000:queue"), "400 InvalidArgument"),
        (queue() + queue(), "400 InvalidArgument"),
        (queue() + queue(name="s"), "400 InvalidArgument"),
        (queue(prefix="a/../b"), "400 InvalidArgument"),
        (queue(prefix="a" * 1025), "400 InvalidArgument"),
        (f"<QueueConfiguration><Queue>{ARN}</Queue></QueueConfiguration>", "400 MalformedXML"),
        ("<Else/>", "400 MalformedXML"),
        ("<TopicConfiguration/>", "400 UnsupportedNotification"),
    ],
)
async def test_what_is_refused_leaves_what_was_there(edge: Edge, content: str, expected: str) -> None:
    assert await edge.put_rules(queue("s3:ObjectTagging:*")) == "200"
    before = await shown(edge)
    assert await edge.put_rules(content) == expected
    assert await shown(edge) == before


async def test_a_target_that_is_to_come_can_be_named_if_that_is_said(edge: Edge) -> None:
    later = queue(arn="arn:lakebed:sqs:us-east-1:2:webhook")
    skip = {"x-amz-skip-destination-validation": "true"}
    assert await edge.put_rules(later, **skip) == "200"
    assert b":2:webhook" in await shown(edge)


async def test_a_bucket_that_is_not_there_has_no_configuration(edge: Edge) -> None:
    assert outcome(await edge.send("GET", "/nowhere", "notification")) == "404 NoSuchBucket"
    body = b"<NotificationConfiguration/>"
    assert outcome(await edge.send("PUT", "/nowhere", "notification", body)) == "404 NoSuchBucket"


async def test_who_may_not_is_told_so_before_the_document_is_read(edge: Edge) -> None:
    nobody = user("nobody").principal
    assert outcome(await edge.send("GET", "/bucket", "notification", who=nobody)) == "403 AccessDenied"
    assert outcome(await edge.send("PUT", "/bucket", "notification", b"<", who=nobody)) == "403 AccessDenied"


# -- reads ------------------------------------------------------------------------------------------------------


async def test_reads_are_told_of_where_a_rule_asks_for_them(edge: Edge) -> None:
    assert (await edge.send("PUT", "/bucket/k", body=b"abc")).status == 200
    reads = [
        ("GET", "/bucket/k", "", {}),
        ("HEAD", "/bucket/k", "", {}),
        ("GET", "/bucket/k", "attributes", {"x-amz-object-attributes": "ETag"}),
        ("PUT", "/bucket/k", "acl", {"x-amz-acl": "private"}),
        ("DELETE", "/bucket/absent", "", {}),
    ]

    async def told_of_reads() -> list[str]:
        after = (await edge.store.events())[-1].seq
        for method, path, query, headers in reads:
            assert (await edge.send(method, path, query, headers=headers)).status in (200, 204)
        # Neither what is not there nor what is refused was read.
        assert (await edge.send("GET", "/bucket/absent")).status == 404
        refused = await edge.send("GET", "/bucket/k", headers={"if-match": "other"})
        assert refused.status == 412
        await edge.accesses.flush()
        return sorted(entry.event.kind for entry in await edge.store.events(after))

    assert await told_of_reads() == []
    assert await edge.put_rules(queue("s3:ObjectAccessed:*,s3:ObjectRemoved:NoOP,s3:ObjectAcl:Put")) == "200"
    assert await told_of_reads() == [
        "ObjectAccessed:Attributes",
        "ObjectAccessed:Get",
        "ObjectAccessed:Head",
        "ObjectAcl:Put",
        "ObjectRemoved:NoOP",
    ]
    assert await edge.put_rules(queue("s3:ObjectAccessed:Head")) == "200"
    assert await told_of_reads() == ["ObjectAccessed:Head"]


# -- listeners --------------------------------------------------------------------------------------------------


class Heard:
    """The lines of a listener."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._rest = b""
        self.spaces = 0

    async def line(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            piece = await anext(self._stream)
            self.spaces += piece == b" "
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    async def record(self) -> dict[str, Any]:
        (record,) = (await self.line())["Records"]
        assert isinstance(record, dict)
        return record


@asynccontextmanager
async def listening(edge: Edge, query: str, path: str = "/bucket") -> AsyncIterator[Heard]:
    response = await edge.send("GET", path, query)
    assert response.status == 200, response.body
    headers = dict(response.headers)
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("text/event-stream", "no-cache")
    stream = response.stream
    assert stream is not None
    try:
        yield Heard(stream)
    finally:
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_listener_hears_what_it_asks_for(edge: Edge) -> None:
    query = "events=s3%3AObjectCreated%3A%2A&events=s3:ObjectRemoved:*&prefix=in%2F&suffix=.csv"
    await edge.send("PUT", "/bucket/in/before.csv")
    async with listening(edge, query) as heard:
        await edge.store.bucket("other")
        for path in ("/bucket/out/a.csv", "/bucket/in/a.txt", "/other/in/a.csv", "/bucket/in/a%20b.csv"):
            assert (await edge.send("PUT", path, body=b"abc")).status == 200
        await edge.send("DELETE", "/bucket/in/a%20b.csv")
        made, gone = await heard.record(), await heard.record()
    assert (made["eventName"], made["s3"]["object"]["key"], made["s3"]["object"]["size"]) == (
        "s3:ObjectCreated:Put",
        "in/a+b.csv",
        3,
    )
    assert (gone["eventName"], "size" in gone["s3"]["object"]) == ("s3:ObjectRemoved:Delete", False)
    assert made["source"] == {"host": "localhost", "port": "9000", "userAgent": "test/1"}
    assert made["s3"]["object"]["sequencer"] < gone["s3"]["object"]["sequencer"]


async def test_a_listener_to_all_hears_all_buckets(edge: Edge) -> None:
    async with listening(edge, "events=s3:BucketCreated:*&events=s3:ObjectCreated:Put", "/") as heard:
        await edge.store.bucket("other")
        await edge.send("PUT", "/other/k")
        await edge.send("PUT", "/bucket/k")
        found = [await heard.record() for _ in range(3)]
    assert [(one["eventName"], one["s3"]["bucket"]["name"]) for one in found] == [
        ("s3:BucketCreated:*", "other"),
        ("s3:ObjectCreated:Put", "other"),
        ("s3:ObjectCreated:Put", "bucket"),
    ]


async def test_reads_are_told_of_while_somebody_listens_for_them(edge: Edge) -> None:
    await edge.send("PUT", "/bucket/k", body=b"abc")
    async with listening(edge, "events=s3:ObjectAccessed:*&ping=1") as heard:
        assert (await heard.line())["Records"] == [], "a sign of life, and it is heard"
        await edge.send("GET", "/bucket/k")
        await edge.accesses.flush()
        while not (records := (await heard.line())["Records"]):
            pass
    assert [record["eventName"] for record in records] == ["s3:ObjectAccessed:Get"]
    await edge.send("GET", "/bucket/k")
    assert await edge.accesses.flush() == 0


@pytest.mark.slow
async def test_silence_is_broken_by_spaces_which_are_no_lines(edge: Edge) -> None:
    async with listening(edge, "events=s3:ObjectCreated:*") as heard:
        stream = heard._stream
        assert [await anext(stream), await anext(stream)] == [b" ", b" "]
        await edge.send("PUT", "/bucket/k")
        assert (await heard.record())["eventName"] == "s3:ObjectCreated:Put"


async def test_a_stream_ends_with_the_server(edge: Edge) -> None:
    async with listening(edge, "events=s3:ObjectCreated:*") as heard:
        edge.is_there = False
        with pytest.raises(StopAsyncIteration):
            await heard.line()


@pytest.mark.parametrize(
    "query",
    [
        "events",
        "events=",
        "events=s3:ObjectCreated:Put&events=nonsense",
        "events=s3:ObjectCreated:Put&prefix=a&prefix=b",
        "events=s3:ObjectCreated:Put&suffix=a&suffix=a",
        "events=s3:ObjectCreated:Put&prefix=a/../b",
        "events=s3:ObjectCreated:Put&suffix=a%5Cb",
        f"events=s3:ObjectCreated:Put&prefix={'a' * 1025}",
        "events=s3:ObjectCreated:Put&ping=0",
        "events=s3:ObjectCreated:Put&ping=x",
        "events=s3:ObjectCreated:Put&ping=1&ping=1",
        "events=s3:ObjectCreated:Put&ping=99999999999999999999",
        "events=kms:Key:Created",
    ],
)
async def test_what_cannot_be_listened_for_is_refused(edge: Edge, query: str) -> None:
    assert outcome(await edge.send("GET", "/bucket", query)) == "400 InvalidArgument"
    assert outcome(await edge.send("GET", "/", query)) == "400 InvalidArgument"


async def test_who_may_not_listen_is_told_so(edge: Edge) -> None:
    query = "events=s3:ObjectCreated:Put"
    assert outcome(await edge.send("GET", "/nowhere", query)) == "404 NoSuchBucket"
    for who in (user("nobody").principal, ANONYMOUS):
        for path in ("/bucket", "/"):
            assert outcome(await edge.send("GET", path, query, who=who)) == "403 AccessDenied"
    statement = (
        b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:ListenBucketNotification",'
        b'"Resource":"arn:aws:s3:::bucket"}}'
    )
    listener = user("listener", statement).principal
    response = await edge.send("GET", "/bucket", query, who=listener)
    assert response.status == 200
    assert outcome(await edge.send("GET", "/", query, who=listener)) == "403 AccessDenied"
