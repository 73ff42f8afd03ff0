"""Bucket notification configurations and ListenBucketNotification over S3."""

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


class KnownTargets:
    async def exists(self, tx: Reader, target_id: str) -> bool:
        return target_id == "1:webhook"


class NoCredentials:
    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        raise Unauthenticated("no such key")


class FixedAuthenticator(SignatureAuthenticator):
    """Authenticates all requests as one principal."""

    principal: Principal = ROOT.principal

    async def authenticate(self, request: Request) -> Authenticated:
        return Authenticated(self.principal)


@dataclass
class Site:
    """The S3 application on an object store, with one event target."""

    store: ObjectStore
    application: S3Application
    authenticator: FixedAuthenticator
    accesses: ReadEvents
    is_connected: bool = True

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        principal: Principal = ROOT.principal,
    ) -> Response:
        self.authenticator.principal = principal
        received = RequestBody(len(body))
        if body:
            received.push(body)
            received.finish()
        sent = {"host": "localhost:9000", "content-length": str(len(body)), "user-agent": "test/1", **(headers or {})}
        request = Request(
            method, path, query, sent, received, "http", "127.0.0.1", "R1", may_wait=lambda: self.is_connected
        )
        return await self.application(request)

    async def put_rules(self, content: str, **headers: str) -> str:
        """Put a configuration: the status of the response, and the code of an error."""
        body = f"<NotificationConfiguration>{content}</NotificationConfiguration>".encode()
        return outcome(await self.send("PUT", "/bucket", "notification", body, headers))


def outcome(response: Response) -> str:
    code = re.search(rb"<Code>(\w+)</Code>", response.body)
    return f"{response.status} {code[1].decode()}" if code else str(response.status)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    clock = ManualClock()
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, clock) as store:
        f = store.object_context
        event_listeners = ListenerRegistry(f.meta, clock, "p")
        accesses = ReadEvents(f.meta, f.outbox, clock, event_listeners)
        authenticator = FixedAuthenticator(NoCredentials(), clock)
        services = S3Services.on(
            replace(f, read_events=accesses),
            authenticator,
            policies=PolicyAuthorizer(clock),
            lifecycle_day_ms=DAY_MS,
            feed=LiveFeed(f.meta, f.outbox, event_listeners),
            targets=KnownTargets(),
        )
        application = S3Application(services, None, clock=clock)  # type: ignore[arg-type]  # the tests request no tokens
        await store.bucket("bucket")
        yield Site(store, application, authenticator, accesses)


def queue(events: str = "s3:ObjectCreated:*", *, name: str = "r", arn: str = ARN, prefix: str = "") -> str:
    chosen = "".join(f"<Event>{event}</Event>" for event in events.split(","))
    rules = f"<FilterRule><Name>prefix</Name><Value>{prefix}</Value></FilterRule>" if prefix else ""
    return (
        f"<QueueConfiguration><Id>{name}</Id><Queue>{arn}</Queue>{chosen}"
        f"<Filter><S3Key>{rules}</S3Key></Filter></QueueConfiguration>"
    )


async def configuration(site: Site) -> bytes:
    response = await site.send("GET", "/bucket", "notification")
    assert response.status == 200
    return response.body


# -- configurations ---------------------------------------------------------------------------------------------


async def test_configuration_is_put_read_and_cleared(site: Site) -> None:
    assert b"QueueConfiguration" not in await configuration(site)
    assert await site.put_rules(queue()) == "200"
    assert f"<Queue>{ARN}</Queue><Event>s3:ObjectCreated:*</Event>".encode() in await configuration(site)
    assert await site.put_rules("") == "200"
    assert b"QueueConfiguration" not in await configuration(site)


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
async def test_rejected_configuration_leaves_the_previous_one(site: Site, content: str, expected: str) -> None:
    assert await site.put_rules(queue("s3:ObjectTagging:*")) == "200"
    before = await configuration(site)
    assert await site.put_rules(content) == expected
    assert await configuration(site) == before


async def test_unknown_target_is_accepted_with_skip_destination_validation(site: Site) -> None:
    later = queue(arn="arn:lakebed:sqs:us-east-1:2:webhook")
    skip = {"x-amz-skip-destination-validation": "true"}
    assert await site.put_rules(later, **skip) == "200"
    assert b":2:webhook" in await configuration(site)


async def test_missing_bucket_gets_no_such_bucket(site: Site) -> None:
    assert outcome(await site.send("GET", "/nowhere", "notification")) == "404 NoSuchBucket"
    body = b"<NotificationConfiguration/>"
    assert outcome(await site.send("PUT", "/nowhere", "notification", body)) == "404 NoSuchBucket"


async def test_caller_without_permission_is_denied_before_the_document_is_read(site: Site) -> None:
    reader = user("reader").principal
    assert outcome(await site.send("GET", "/bucket", "notification", principal=reader)) == "403 AccessDenied"
    assert outcome(await site.send("PUT", "/bucket", "notification", b"<", principal=reader)) == "403 AccessDenied"


# -- reads ------------------------------------------------------------------------------------------------------


async def test_reads_write_events_if_a_rule_subscribes_to_them(site: Site) -> None:
    assert (await site.send("PUT", "/bucket/k", body=b"abc")).status == 200
    reads = [
        ("GET", "/bucket/k", "", {}),
        ("HEAD", "/bucket/k", "", {}),
        ("GET", "/bucket/k", "attributes", {"x-amz-object-attributes": "ETag"}),
        ("PUT", "/bucket/k", "acl", {"x-amz-acl": "private"}),
        ("DELETE", "/bucket/absent", "", {}),
    ]

    async def events_of_reads() -> list[str]:
        after = (await site.store.events())[-1].seq
        for method, path, query, headers in reads:
            assert (await site.send(method, path, query, headers=headers)).status in (200, 204)
        # Reads of missing objects and failed reads write no events.
        assert (await site.send("GET", "/bucket/absent")).status == 404
        failed = await site.send("GET", "/bucket/k", headers={"if-match": "other"})
        assert failed.status == 412
        await site.accesses.flush()
        return sorted(entry.event.kind for entry in await site.store.events(after))

    assert await events_of_reads() == []
    assert await site.put_rules(queue("s3:ObjectAccessed:*,s3:ObjectRemoved:NoOP,s3:ObjectAcl:Put")) == "200"
    assert await events_of_reads() == [
        "ObjectAccessed:Attributes",
        "ObjectAccessed:Get",
        "ObjectAccessed:Head",
        "ObjectAcl:Put",
        "ObjectRemoved:NoOP",
    ]
    assert await site.put_rules(queue("s3:ObjectAccessed:Head")) == "200"
    assert await events_of_reads() == ["ObjectAccessed:Head"]


# -- listeners --------------------------------------------------------------------------------------------------


class Listener:
    """The lines that a listener receives."""

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
async def listening(site: Site, query: str, path: str = "/bucket") -> AsyncIterator[Listener]:
    response = await site.send("GET", path, query)
    assert response.status == 200, response.body
    headers = dict(response.headers)
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("text/event-stream", "no-cache")
    stream = response.stream
    assert stream is not None
    try:
        yield Listener(stream)
    finally:
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_listener_receives_events_that_match_its_filter(site: Site) -> None:
    query = "events=s3%3AObjectCreated%3A%2A&events=s3:ObjectRemoved:*&prefix=in%2F&suffix=.csv"
    await site.send("PUT", "/bucket/in/before.csv")
    async with listening(site, query) as listener:
        await site.store.bucket("other")
        for path in ("/bucket/out/a.csv", "/bucket/in/a.txt", "/other/in/a.csv", "/bucket/in/a%20b.csv"):
            assert (await site.send("PUT", path, body=b"abc")).status == 200
        await site.send("DELETE", "/bucket/in/a%20b.csv")
        made, removed = await listener.record(), await listener.record()
    assert (made["eventName"], made["s3"]["object"]["key"], made["s3"]["object"]["size"]) == (
        "s3:ObjectCreated:Put",
        "in/a+b.csv",
        3,
    )
    assert (removed["eventName"], "size" in removed["s3"]["object"]) == ("s3:ObjectRemoved:Delete", False)
    assert made["source"] == {"host": "localhost", "port": "9000", "userAgent": "test/1"}
    assert made["s3"]["object"]["sequencer"] < removed["s3"]["object"]["sequencer"]


async def test_listener_to_all_buckets_receives_their_events(site: Site) -> None:
    async with listening(site, "events=s3:BucketCreated:*&events=s3:ObjectCreated:Put", "/") as listener:
        await site.store.bucket("other")
        await site.send("PUT", "/other/k")
        await site.send("PUT", "/bucket/k")
        found = [await listener.record() for _ in range(3)]
    assert [(one["eventName"], one["s3"]["bucket"]["name"]) for one in found] == [
        ("s3:BucketCreated:*", "other"),
        ("s3:ObjectCreated:Put", "other"),
        ("s3:ObjectCreated:Put", "bucket"),
    ]


async def test_reads_write_events_while_a_listener_subscribes_to_them(site: Site) -> None:
    await site.send("PUT", "/bucket/k", body=b"abc")
    async with listening(site, "events=s3:ObjectAccessed:*&ping=1") as listener:
        assert (await listener.line())["Records"] == [], "a keep-alive, so the subscription is active"
        await site.send("GET", "/bucket/k")
        await site.accesses.flush()
        while not (records := (await listener.line())["Records"]):
            pass
    assert [record["eventName"] for record in records] == ["s3:ObjectAccessed:Get"]
    await site.send("GET", "/bucket/k")
    assert await site.accesses.flush() == 0


@pytest.mark.slow
async def test_spaces_are_sent_as_keep_alives(site: Site) -> None:
    async with listening(site, "events=s3:ObjectCreated:*") as listener:
        stream = listener._stream
        assert [await anext(stream), await anext(stream)] == [b" ", b" "]
        await site.send("PUT", "/bucket/k")
        assert (await listener.record())["eventName"] == "s3:ObjectCreated:Put"


async def test_stream_ends_when_the_client_disconnects(site: Site) -> None:
    async with listening(site, "events=s3:ObjectCreated:*") as listener:
        site.is_connected = False
        with pytest.raises(StopAsyncIteration):
            await listener.line()


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
async def test_invalid_listen_parameters_are_rejected(site: Site, query: str) -> None:
    assert outcome(await site.send("GET", "/bucket", query)) == "400 InvalidArgument"
    assert outcome(await site.send("GET", "/", query)) == "400 InvalidArgument"


async def test_listening_requires_permission(site: Site) -> None:
    query = "events=s3:ObjectCreated:Put"
    assert outcome(await site.send("GET", "/nowhere", query)) == "404 NoSuchBucket"
    for principal in (user("reader").principal, ANONYMOUS):
        for path in ("/bucket", "/"):
            assert outcome(await site.send("GET", path, query, principal=principal)) == "403 AccessDenied"
    statement = (
        b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:ListenBucketNotification",'
        b'"Resource":"arn:aws:s3:::bucket"}}'
    )
    listener = user("listener", statement).principal
    response = await site.send("GET", "/bucket", query, principal=listener)
    assert response.status == 200
    assert outcome(await site.send("GET", "/", query, principal=listener)) == "403 AccessDenied"
