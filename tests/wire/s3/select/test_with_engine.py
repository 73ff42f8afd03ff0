"""SelectObjectContent with the real query engine, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from botocore.eventstream import EventStreamBuffer

from lakebed.core.clock import ManualClock
from lakebed.select.model import CsvInput, CsvOutput, QueryStats, SelectLimits, SelectRequest
from lakebed.select.service import SelectService
from lakebed.wire.s3.select.response import SelectResponse
from tests.objects.stores import ROOT, ObjectStore, opened_store
from tests.wire.iceberg.lake import Answer, Lake, wire_lake

PATH = "/data/people.csv?select&select-type=2"
PEOPLE = b"name,age\nAnn,31\nBob,29\nCid,42\n"


class Site:
    """A server and its query engine."""

    def __init__(self, lake: Lake, store: ObjectStore, selects: SelectService) -> None:
        self.lake = lake
        self.store = store
        self.selects = selects

    async def select(self, sql: str, source: str = "<CSV/>", target: str = "<CSV/>") -> Answer:
        body = (
            f"<SelectRequest><Expression>{sql}</Expression><ExpressionType>SQL</ExpressionType>"
            f"<InputSerialization>{source}</InputSerialization><OutputSerialization>{target}</OutputSerialization>"
            "<RequestProgress><Enabled>true</Enabled></RequestProgress></SelectRequest>"
        )
        return await self.lake.send("POST", PATH, body.encode())


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "folder", tmp_path / "bytes", ManualClock()) as store:
        selects = SelectService(store.reader, store.lister, store.clock, SelectLimits(partitions=1), tmp_path)
        await store.bucket("data")
        await store.put("data", "people.csv", PEOPLE)
        yield Site(wire_lake(store, selects=selects), store, selects)
        assert selects.running == 0


def parts(response: Answer) -> tuple[bytes, list[str]]:
    """The records, and the names of the messages."""
    buffer = EventStreamBuffer()
    buffer.add_data(response.body)
    records, names = b"", []
    for message in buffer:
        names.append(message.headers.get(":event-type") or message.headers[":error-code"])
        if names[-1] == "Records":
            records += message.payload
    return records, names


def error_of(response: Answer) -> tuple[int, bytes]:
    return response.status, response.body.partition(b"<Code>")[2].partition(b"</Code>")[0]


async def test_response_has_records_progress_stats_and_end(site: Site) -> None:
    sql = "SELECT s.name FROM S3Object s WHERE CAST(s.age AS INT) &gt; 30"
    response = await site.select(sql, "<CSV><FileHeaderInfo>USE</FileHeaderInfo></CSV>")
    assert response.status == 200
    assert parts(response) == (b"Ann\nCid\n", ["Records", "Progress", "Stats", "End"])
    counts = f"<BytesScanned>{len(PEOPLE)}</BytesScanned><BytesProcessed>{len(PEOPLE)}</BytesProcessed>"
    assert response.body.count(f"{counts}<BytesReturned>8</BytesReturned>".encode()) == 2


@pytest.mark.parametrize(
    ("sql", "source", "code"),
    [
        ("SELECT * FROM elsewhere", "<CSV/>", b"DataSourcePathUnsupported"),
        ("SELECT s._9 FROM S3Object s", "<CSV/>", b"InvalidColumnIndex"),
        ("SELECT CAST(s._2 AS INT) FROM S3Object s", "<CSV/>", b"CastFailed"),
        ("SELECT * FROM S3Object", "<CompressionType>GZIP</CompressionType><CSV/>", b"InvalidCompressionFormat"),
        ("SELECT * FROM S3Object", "<Parquet/>", b"ParquetParsingError"),
        ("SELECT * FROM S3Object", "<JSON/>", b"JSONParsingError"),
        ("SELECT * FROM S3Object", "<CSV><QuoteCharacter>''</QuoteCharacter></CSV>", b"InvalidRequestParameter"),
        ("", "<CSV/>", b"ParseExpectedKeyword"),
    ],
)
async def test_invalid_query_gets_a_status_and_a_code(sql: str, source: str, code: bytes, site: Site) -> None:
    assert error_of(await site.select(sql, source)) == (400, code)


async def test_failure_during_the_query_follows_the_records(site: Site) -> None:
    body = b"".join(b"%d\n" % number for number in range(300_000))
    await site.store.put("data", "people.csv", body + b"oops\n")
    records, names = parts(await site.select("SELECT CAST(s._1 AS INT) FROM S3Object s"))
    assert body.startswith(records)
    assert records
    assert names[-1] == "CastFailed"


async def test_closing_a_response_early_closes_its_query(site: Site) -> None:
    body = b"".join(b"%d,%s\n" % (number, b"z" * 100) for number in range(100_000))
    await site.store.put("data", "people.csv", body)
    query = SelectRequest("SELECT * FROM S3Object", CsvInput(), CsvOutput())
    for messages in (0, 1, 5):
        running = await site.selects.open(ROOT, "data", "people.csv", query)
        outcomes: list[str] = []

        def ended(outcome: str, _: QueryStats, reported: list[str] = outcomes) -> None:
            reported.append(outcome)

        response = SelectResponse(running, site.store.clock, progress=False, ended=ended)
        await response.begin()
        for _ in range(messages):
            await anext(response)
        assert site.selects.running == 1
        await response.aclose()
        assert site.selects.running == 0
        assert outcomes == ["cancelled"]
