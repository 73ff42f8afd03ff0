"""SelectObjectContent over S3: permissions, the selected object, and errors before the first record."""

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
    """A server with scripted queries, and a bucket `data` with an object."""

    def __init__(self, lake: Lake, store: ObjectStore, selects: ScriptedSelects) -> None:
        self.lake = lake
        self.store = store
        self.selects = selects

    async def select(
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
    folder: Path, *steps: Step, error: Exception | None = None, versioning: Versioning = Versioning.UNVERSIONED
) -> AsyncIterator[Site]:
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        selects = ScriptedSelects(store.reader, store.lister, *steps, error=error)
        await store.bucket("data", versioning)
        await store.put("data", "some/key.csv", b"1,2\n")
        yield Site(wire_lake(store, selects=selects), store, selects)


def events(response: Answer) -> list[str]:
    buffer = EventStreamBuffer()
    buffer.add_data(response.body)
    return [message.headers.get(":event-type") or message.headers[":error-code"] for message in buffer]


def error_of(response: Answer) -> tuple[int, str]:
    code = response.body.partition(b"<Code>")[2].partition(b"</Code>")[0]
    return response.status, code.decode()


async def test_select_response_is_an_event_stream(tmp_path: Path) -> None:
    async with opened_site(tmp_path, b'{"_1":1}\n') as site:
        response = await site.select()

        assert response.status == 200
        assert response.headers["content-type"] == "application/vnd.amazon.eventstream"
        assert events(response) == ["Records", "Stats", "End"]
        assert site.selects.requests == [SelectRequest("SELECT 1", CsvInput(), JsonOutput())]
        assert [query.closed for query in site.selects.opened] == [1]


async def test_response_has_the_version_id_in_a_versioned_bucket(tmp_path: Path) -> None:
    async with opened_site(tmp_path, versioning=Versioning.ENABLED) as site:
        first = (await site.select()).headers["x-amz-version-id"]
        await site.store.put("data", "some/key.csv", b"other")
        second = (await site.select()).headers["x-amz-version-id"]
        again = (await site.select(f"{PATH}&versionId={first}")).headers["x-amz-version-id"]

        assert first == again != second


async def test_response_has_the_encryption_of_the_object(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert "x-amz-server-side-encryption" not in (await site.select()).headers
        await site.store.put("data", "some/key.csv", b"1", encrypt=True)
        assert (await site.select()).headers["x-amz-server-side-encryption"] == "AES256"


# -- permissions -----------------------------------------------------------------------------------------------------


async def test_select_requires_permission_to_get_the_object(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        reader = await site.lake.user("reader", allow("s3:GetObject", resource="arn:aws:s3:::data/some/*"))
        lister = await site.lake.user("lister", allow("s3:ListBucket", "s3:PutObject"))

        assert (await site.select(keys=reader)).status == 200
        assert error_of(await site.select(keys=lister)) == (403, "AccessDenied")
        assert error_of(await site.select(keys=None)) == (403, "AccessDenied")
        assert len(site.selects.opened) == 1


async def test_select_of_a_prefix_requires_permission_to_list_and_to_get_each_object(tmp_path: Path) -> None:
    path = "/data?select&select-type=2&prefix=some%2F"
    async with opened_site(tmp_path, b"1\n") as site:
        getting = allow("s3:GetObject", resource="arn:aws:s3:::data/some/*")
        reader = await site.lake.user("reader", getting)
        both = await site.lake.user("both", getting, allow("s3:ListBucket"))

        response = await site.select(path, keys=both)
        assert (response.status, events(response)) == (200, ["Records", "Stats", "End"])
        assert error_of(await site.select(path, keys=reader)) == (403, "AccessDenied")
        assert error_of(await site.select(path, keys=None)) == (403, "AccessDenied")
        assert len(site.selects.opened) == 1


async def test_public_policy_does_not_allow_anonymous_selects(tmp_path: Path) -> None:
    statement = '{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::data/*"}'
    policy = f'{{"Version":"2012-10-17","Statement":[{statement}]}}'.encode()
    async with opened_site(tmp_path) as site:
        assert (await site.lake.send("PUT", "/data?policy", policy)).status == 204
        assert (await site.lake.send("GET", "/data/some/key.csv", keys=None)).status == 200
        assert error_of(await site.select(keys=None)) == (403, "AccessDenied")


async def test_expected_bucket_owner_is_checked(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        owner = (await site.store.buckets.find("data")).owner
        for account in (owner, canonical_id(owner)):
            assert (await site.select(headers={"x-amz-expected-bucket-owner": account})).status == 200
        other = await site.select(headers={"x-amz-expected-bucket-owner": "111122223333"})
        assert error_of(other) == (403, "AccessDenied")


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
async def test_missing_objects_and_parameters_get_the_errors_of_get_object(
    path: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    async with opened_site(tmp_path) as site:
        assert error_of(await site.select(path)) == expected


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_select_requires_post(method: str, tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert error_of(await site.lake.send(method, PATH, BODY)) == (405, "MethodNotAllowed")
        assert await site.store.get("data", "some/key.csv") == b"1,2\n"


# -- errors ----------------------------------------------------------------------------------------------------------


async def test_unsupported_headers_are_rejected_before_the_document_is_read(tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        ranged = await site.select(body=b"<", headers={"Range": "bytes=0-1"})
        assert error_of(ranged) == (400, "UnsupportedRangeHeader")
        key = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
        assert error_of(await site.select(headers=key)) == (501, "NotImplemented")
        assert site.selects.requests == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "EmptyRequestBody")),
        (b"<", (400, "MalformedXML")),
        (BODY.replace(b"<CSV/>", b"<CSV/><JSON/>"), (400, "ObjectSerializationConflict")),
        (BODY.replace(b"<ExpressionType>SQL</ExpressionType>", b""), (400, "MissingRequiredParameter")),
    ],
)
async def test_invalid_documents_are_rejected(body: bytes, expected: tuple[int, str], tmp_path: Path) -> None:
    async with opened_site(tmp_path) as site:
        assert error_of(await site.select(body=body)) == expected
        assert site.selects.requests == []


@pytest.mark.parametrize("code", list(SelectCode))
def test_every_code_has_its_status(code: SelectCode) -> None:
    others = {"UnauthorizedAccess": 401, "MethodNotAllowed": 405, "InternalError": 500, "Busy": 503}
    rendered = render_error(SelectError("why", code=code))
    assert (rendered.status, rendered.code, rendered.message) == (others.get(code, 400), code, "why")
    assert SELECT_STATUSES[code] == rendered.status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SelectError("no FROM", code=SelectCode.PARSE_SELECT_MISSING_FROM), (400, "ParseSelectMissingFrom")),
        (Throttled("four run"), (503, "SlowDown")),
        (Unavailable("no memory"), (503, "Busy")),
        (NotSupported("no engine"), (501, "NotImplemented")),
    ],
)
@pytest.mark.parametrize("when", ["opening", "running"])
async def test_error_before_the_first_record_has_a_status(
    error: Exception, expected: tuple[int, str], when: str, tmp_path: Path
) -> None:
    steps, opening_error = ((), error) if when == "opening" else ((error,), None)
    async with opened_site(tmp_path, *steps, error=opening_error) as site:
        assert error_of(await site.select()) == expected
        assert [query.closed for query in site.selects.opened] == ([] if when == "opening" else [1])


async def test_later_error_is_in_the_event_stream(tmp_path: Path) -> None:
    async with opened_site(tmp_path, b"1\n", SelectError("x", code=SelectCode.CAST_FAILED)) as site:
        response = await site.select()
        assert response.status == 200
        assert events(response) == ["Records", "CastFailed"]


async def test_server_without_a_query_runner_returns_not_implemented(tmp_path: Path) -> None:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as store:
        await store.bucket("data")
        lake = wire_lake(store)
        assert error_of(await lake.send("POST", PATH, BODY)) == (501, "NotImplemented")
