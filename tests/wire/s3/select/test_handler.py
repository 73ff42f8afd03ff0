"""SelectObjectContent at the edge: who may, which object, and what is refused before the first byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from botocore.eventstream import EventStreamBuffer

from lakebed.core.access import canonical_id
from lakebed.core.clock import ManualClock
from lakebed.core.errors import NotSupported, SelectError, Throttled, Unavailable
from lakebed.objects.config.versioning import Versioning
from lakebed.select.errors import SelectCode
from lakebed.select.model import CsvInput, JsonOutput, SelectRequest
from lakebed.wire.s3.errors import SELECT_STATUSES, render_error
from tests.clients.boto import Keys
from tests.objects.stores import ObjectStore, opened_store
from tests.wire.iceberg.lake import ROOT_KEYS, Answer, Lake, allow, wire_lake
from tests.wire.s3.select.scripted import ScriptedSelects, Step

BODY = (
    b"<SelectObjectContentRequest><Expression>SELECT 1</Expression><ExpressionType>SQL</ExpressionType>"
    b"<InputSerialization><CSV/></InputSerialization><OutputSerialization><JSON/></OutputSerialization>"
    b"</SelectObjectContentRequest>"
)
PATH = "/data/some/key.csv?select&select-type=2"


class Site:
    """A server whose selects follow a script, and a bucket `data` with an object in it."""

    def __init__(self, lake: Lake, store: ObjectStore, selects: ScriptedSelects) -> None:
        self.lake = lake
        self.store = store
        self.selects = selects

    async def ask(
        self,
        path: str = PATH,
        body: bytes = BODY,
        headers: Mapping[str, str] | None = None,
        *,
        keys: Keys | None = ROOT_KEYS,
    ) -> Answer:
        return await self.lake.send("POST", path, body, headers, keys=keys)


@asynccontextmanager
async def opened_site(
    folder: Path, *steps: Step, refusal: Exception | None = None, versioning: Versioning = Versioning.UNVERSIONED
) -> AsyncIterator[Site]:
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        selects = ScriptedSelects(store.reader, store.lister, *steps, refusal=refusal)
        await store.bucket("data", versioning)
        await store.put("data", "some/key.csv", b"1,2\n")
        yield Site(wire_lake(store, selects=selects), store, selects)


def events(answer: Answer) -> list[str]:
    buffer = EventStreamBuffer()
    buffer.add_data(answer.body)
    return [message.headers.get(":event-type") or message.headers[":error-code"] for message in buffer]


def refusal_of(answer: Answer) -> tuple[int, str]:
    code = answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0]
    return answer.status, code.decode()


async def test_a_select_is_answered_as_a_stream_of_messages(tmp_path: Path) -> None:
    async with opened_site(tmp_path, b'{"_1":1}\n') as site:
        answer = await site.ask()

        assert answer.status == 200
        assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
        assert events(answer) == ["Records", "Stats", "End"]
        assert site.selects.asked == [SelectRequest("SELECT 1", CsvInput(), JsonOutput())]
        assert [query.closed for query in site.selects.opened] == [1]


async def test_the_version_that_is_read_is_named_where_there_are_several(tmp_path: Path) -> None:
    async with opened_site(tmp_path, versioning=Versioning.ENABLED) as site:
        first = (await site.ask()).headers["x-amz-version-id"]
        await site.store.put("data", "some/key.csv", b"other")
        second = (await site.ask()).headers["x-amz-version-id"]
        again = (await site.ask(f"{PATH}&versionId={first}")).headers["x-amz-version-id"]

        assert first == again != second


async def test_encryption_of_the_object_is_told(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert "x-amz-server-side-encryption" not in (await site.ask()).headers
        await site.store.put("data", "some/key.csv", b"1", encrypt=True)
        assert (await site.ask()).headers["x-amz-server-side-encryption"] == "AES256"


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_who_may_get_the_object_may_select_from_it_and_nobody_else(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        reader = await site.lake.user("reader", allow("s3:GetObject", resource="arn:aws:s3:::data/some/*"))
        lister = await site.lake.user("lister", allow("s3:ListBucket", "s3:PutObject"))

        assert (await site.ask(keys=reader)).status == 200
        assert refusal_of(await site.ask(keys=lister)) == (403, "AccessDenied")
        assert refusal_of(await site.ask(keys=None)) == (403, "AccessDenied")
        assert len(site.selects.opened) == 1


async def test_many_objects_are_asked_by_who_may_list_them_and_get_each(tmp_path: Path) -> None:
    path = "/data?select&select-type=2&prefix=some%2F"
    async with opened_site(tmp_path, b"1\n") as site:
        getting = allow("s3:GetObject", resource="arn:aws:s3:::data/some/*")
        reader = await site.lake.user("reader", getting)
        both = await site.lake.user("both", getting, allow("s3:ListBucket"))

        answer = await site.ask(path, keys=both)
        assert (answer.status, events(answer)) == (200, ["Records", "Stats", "End"])
        assert refusal_of(await site.ask(path, keys=reader)) == (403, "AccessDenied")
        assert refusal_of(await site.ask(path, keys=None)) == (403, "AccessDenied")
        assert len(site.selects.opened) == 1


async def test_no_policy_opens_selects_to_everybody(tmp_path: Path) -> None:
    statement = '{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::data/*"}'
    policy = f'{{"Version":"2012-10-17","Statement":[{statement}]}}'.encode()
    async with opened_site(tmp_path) as site:
        assert (await site.lake.send("PUT", "/data?policy", policy)).status == 204
        assert (await site.lake.send("GET", "/data/some/key.csv", keys=None)).status == 200
        assert refusal_of(await site.ask(keys=None)) == (403, "AccessDenied")


async def test_an_owner_who_is_expected_is_checked(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        owner = (await site.store.buckets.find("data")).owner
        for account in (owner, canonical_id(owner)):
            assert (await site.ask(headers={"x-amz-expected-bucket-owner": account})).status == 200
        other = await site.ask(headers={"x-amz-expected-bucket-owner": "111122223333"})
        assert refusal_of(other) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/absent/k?select&select-type=2", (404, "NoSuchBucket")),
        ("/data/absent?select&select-type=2", (404, "NoSuchKey")),
        ("/data/some/key.csv?select", (400, "InvalidArgument")),
        ("/data/some/key.csv?select&select-type=3", (400, "InvalidArgument")),
        ("/data/some/key.csv?select&select-type=2&versionId=", (400, "InvalidArgument")),
        ("/data/some/key.csv?select&select-type=2&versionId=absent", (404, "NoSuchVersion")),
    ],
)
async def test_what_is_not_there_is_told_as_a_get_tells_it(
    path: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    async with opened_site(tmp_path) as site:
        assert refusal_of(await site.ask(path)) == expected


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_selects_are_posted(method: str, tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert refusal_of(await site.lake.send(method, PATH, BODY)) == (405, "MethodNotAllowed")
        assert await site.store.get("data", "some/key.csv") == b"1,2\n"


# -- what is refused -------------------------------------------------------------------------------------------------


async def test_headers_that_a_select_does_not_have_are_refused_first(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        ranged = await site.ask(body=b"<", headers={"Range": "bytes=0-1"})
        assert refusal_of(ranged) == (400, "UnsupportedRangeHeader")
        key = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
        assert refusal_of(await site.ask(headers=key)) == (501, "NotImplemented")
        assert site.selects.asked == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "EmptyRequestBody")),
        (b"<", (400, "MalformedXML")),
        (BODY.replace(b"<CSV/>", b"<CSV/><JSON/>"), (400, "ObjectSerializationConflict")),
        (BODY.replace(b"<ExpressionType>SQL</ExpressionType>", b""), (400, "MissingRequiredParameter")),
    ],
)
async def test_documents_that_cannot_be_are_refused(body: bytes, expected: tuple[int, str], tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert refusal_of(await site.ask(body=body)) == expected
        assert site.selects.asked == []


@pytest.mark.parametrize("code", list(SelectCode))
def test_every_code_has_its_status(code: SelectCode) -> None:
    others = {"UnauthorizedAccess": 401, "MethodNotAllowed": 405, "InternalError": 500, "Busy": 503}
    rendered = render_error(SelectError("why", code=code))
    assert (rendered.status, rendered.code, rendered.message) == (others.get(code, 400), code, "why")
    assert SELECT_STATUSES[code] == rendered.status


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (SelectError("no FROM", code=SelectCode.PARSE_SELECT_MISSING_FROM), (400, "ParseSelectMissingFrom")),
        (Throttled("four run"), (503, "SlowDown")),
        (Unavailable("no memory"), (503, "Busy")),
        (NotSupported("no engine"), (501, "NotImplemented")),
    ],
)
@pytest.mark.parametrize("when", ["opening", "running"])
async def test_what_is_wrong_before_the_first_byte_has_a_status(
    refusal: Exception, expected: tuple[int, str], when: str, tmp_path: Path
) -> None:
    steps, refused = ((), refusal) if when == "opening" else ((refusal,), None)
    async with opened_site(tmp_path, *steps, refusal=refused) as site:
        assert refusal_of(await site.ask()) == expected
        assert [query.closed for query in site.selects.opened] == ([] if when == "opening" else [1])


async def test_what_is_wrong_later_is_in_the_stream(tmp_path: Path) -> None:
    async with opened_site(tmp_path, b"1\n", SelectError("x", code=SelectCode.CAST_FAILED)) as site:
        answer = await site.ask()
        assert answer.status == 200
        assert events(answer) == ["Records", "CastFailed"]


async def test_a_server_without_an_engine_says_so(tmp_path: Path) -> None:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as store:
        await store.bucket("data")
        lake = wire_lake(store)
        assert refusal_of(await lake.send("POST", PATH, BODY)) == (501, "NotImplemented")
