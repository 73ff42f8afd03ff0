"""boto3's select_object_content on a running server."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import EventStreamError

from tests.clients.boto import ANONYMOUS, Connect
from tests.clients.users import make_user
from tests.fixtures.server import RunningServer

from .conftest import CSV, JSON, LINES, NAMED_CSV, PARQUET, SelectClient, counted

pytestmark = pytest.mark.integration

PEOPLE = b"name,age\nAnn,31\nBob,29\nCid,42\n"
CANCELLED = 'lakebed_select_requests_total{outcome="cancelled"}'


def records(text: str) -> list[Any]:  # Any: JSON
    return [json.loads(line) for line in text.splitlines()]


def test_csv_columns_by_position(select_client: SelectClient) -> None:
    select_client.put("p.csv", b"1,a\n2,b\n3,c\n")
    found = select_client.select("p.csv", "SELECT s._2 FROM S3Object s WHERE CAST(s._1 AS INT) > 1")
    assert found.text == "b\nc\n"
    assert found.events[-2:] == ["Stats", "End"]
    assert found.stats == {"BytesScanned": 12, "BytesProcessed": 12, "BytesReturned": 4}


def test_csv_columns_by_name_to_json(select_client: SelectClient) -> None:
    select_client.put("p.csv", PEOPLE)
    found = select_client.select(
        "p.csv", "SELECT s.name, s.age FROM S3Object s WHERE CAST(s.age AS INT) > 30", NAMED_CSV, JSON
    )
    assert records(found.text) == [{"name": "Ann", "age": "31"}, {"name": "Cid", "age": "42"}]


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("BZIP2", bz2.compress)])
def test_compressed_csv(name: str, pack: Any, select_client: SelectClient) -> None:  # Any: a function of bytes
    packed = pack(PEOPLE)
    select_client.put("p.csv", packed)
    found = select_client.select("p.csv", "SELECT COUNT(*) FROM S3Object", {**NAMED_CSV, "CompressionType": name})
    assert found.text == "3\n"
    assert (found.stats["BytesScanned"], found.stats["BytesProcessed"]) == (len(packed), len(PEOPLE))


def test_json_lines_and_documents(select_client: SelectClient) -> None:
    select_client.put("l.json", b'{"a":{"b":[1,2]},"c":"x"}\n{"a":{"b":[3]},"c":null}\n')
    assert records(
        select_client.select("l.json", "SELECT s.a.b[0] AS first, s.c FROM S3Object s", LINES, JSON).text
    ) == [
        {"first": 1, "c": "x"},
        {"first": 3, "c": None},
    ]
    select_client.put("d.json", b'{"rows": [\n {"n": 1},\n {"n": 2}\n]}')
    document = {"JSON": {"Type": "DOCUMENT"}}
    assert records(select_client.select("d.json", "SELECT r.n FROM S3Object[*].rows[*] r", document, JSON).text) == [
        {"n": 1},
        {"n": 2},
    ]


def test_parquet(select_client: SelectClient) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
    file = io.BytesIO()
    pq.write_table(table, file, compression="snappy")
    select_client.put("t.parquet", file.getvalue())
    assert (
        select_client.select("t.parquet", "SELECT s.id, s.name FROM S3Object s WHERE s.id >= 2", PARQUET).text
        == "2,b\n3,\n"
    )


def test_every_option_of_csv_reaches_the_reader(select_client: SelectClient) -> None:
    select_client.put("odd.csv", b"; a remark\r\nx|y\r\n'1|2'|'it''s'\r\n'a\r\nb'|4\r\n")
    source = {
        "CSV": {
            "FileHeaderInfo": "IGNORE",
            "Comments": ";",
            "QuoteCharacter": "'",
            "QuoteEscapeCharacter": "'",
            "FieldDelimiter": "|",
            "RecordDelimiter": "\r\n",
            "AllowQuotedRecordDelimiter": True,
        }
    }
    target = {
        "CSV": {"QuoteFields": "ALWAYS", "FieldDelimiter": "\t", "RecordDelimiter": "\r\n", "QuoteCharacter": "'"}
    }
    found = select_client.select("odd.csv", "SELECT * FROM S3Object", source, target)
    # Output quotes are escaped by the output's options, by default with a double quote.
    assert found.text == "'1|2'\t'it\"'s'\r\n'a\r\nb'\t'4'\r\n"


def test_scan_ranges_cover_each_record_once(select_client: SelectClient) -> None:
    body = b"".join(b"%d,%s\n" % (number, b"x" * (number % 7)) for number in range(500))
    select_client.put("r.csv", body)
    whole = select_client.select("r.csv", "SELECT s._1 FROM S3Object s").text
    parts, step = [], 777
    for start in range(0, len(body), step):
        bounds = {"Start": start, "End": min(start + step, len(body)) - 1}
        parts.append(select_client.select("r.csv", "SELECT s._1 FROM S3Object s", ScanRange=bounds).text)
    assert "".join(parts) == whole
    assert len(parts) > 3


def test_progress_events_end_at_the_size_of_the_object(select_client: SelectClient) -> None:
    body = b"".join(b"%d\n" % number for number in range(200_000))
    select_client.put("n.csv", body)
    found = select_client.select(
        "n.csv", "SELECT SUM(CAST(s._1 AS INT)) FROM S3Object s", RequestProgress={"Enabled": True}
    )
    assert found.text == "19999900000\n"
    assert found.progress
    assert (
        found.progress[-1]
        == found.stats
        == {
            "BytesScanned": len(body),
            "BytesProcessed": len(body),
            "BytesReturned": len(found.records),
        }
    )
    quiet = select_client.select("n.csv", "SELECT COUNT(*) FROM S3Object s")
    assert "Progress" not in quiet.events


def test_large_results_are_split_into_messages_of_bounded_size(select_client: SelectClient) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(40_000))
    select_client.put("big.csv", body)
    found = select_client.select("big.csv", "SELECT * FROM S3Object")
    assert found.records == body
    assert max(found.sizes) + 16 + 85 <= 131_072 - 256


def test_select_reads_the_version_that_was_current_at_its_start(select_client: SelectClient) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(40_000))
    select_client.put("big.csv", body)
    answer = select_client.open("big.csv", "SELECT * FROM S3Object")
    select_client.put("big.csv", b"other\n")
    read = b"".join(event["Records"]["Payload"] for event in answer["Payload"] if "Records" in event)
    assert read == body


def test_encryption_header_is_returned(select_client: SelectClient) -> None:
    select_client.put("s.csv", b"1\n", ServerSideEncryption="AES256")
    found = select_client.select("s.csv", "SELECT * FROM S3Object")
    assert found.text == "1\n"
    assert found.headers["x-amz-server-side-encryption"] == "AES256"


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT", "400"),
        ("SELECT * FROM elsewhere", "400 DataSourcePathUnsupported"),
        ("SELECT a, * FROM S3Object", "400 ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT * FROM S3Object LIMIT -1", "400 EvaluatorNegativeLimit"),
        ("SELECT NOSUCH(s._1) FROM S3Object s", "400 UnsupportedFunction"),
        ("SELECT s._9 FROM S3Object s", "400 InvalidColumnIndex"),
        ("SELECT CAST(s._1 AS INT) FROM S3Object s", "400 CastFailed"),
    ],
)
def test_invalid_query_is_refused_with_its_error_code(sql: str, expected: str, select_client: SelectClient) -> None:
    select_client.put("p.csv", PEOPLE)
    assert select_client.refusal("p.csv", sql).startswith(expected)


def test_invalid_request_is_refused_with_its_error_code(select_client: SelectClient) -> None:
    select_client.put("p.csv", PEOPLE)
    sql = "SELECT * FROM S3Object"
    assert select_client.refusal("absent", sql) == "404 NoSuchKey"
    assert select_client.refusal("p.csv", sql, {}) == "400 MissingRequiredParameter"
    assert select_client.refusal("p.csv", sql, {"CSV": {}, "Parquet": {}}) == "400 ObjectSerializationConflict"
    assert select_client.refusal("p.csv", sql, {"CSV": {"FileHeaderInfo": "X"}}) == "400 InvalidFileHeaderInfo"
    assert select_client.refusal("p.csv", sql, {"JSON": {"Type": "X"}}) == "400 InvalidJsonType"
    assert select_client.refusal("p.csv", sql, {**CSV, "CompressionType": "X"}) == "400 InvalidCompressionFormat"
    assert select_client.refusal("p.csv", sql, {**CSV, "CompressionType": "GZIP"}) == "400 InvalidCompressionFormat"
    assert select_client.refusal("p.csv", sql, CSV, {"CSV": {"QuoteFields": "X"}}) == "400 InvalidQuoteFields"
    assert select_client.refusal("p.csv", sql, ScanRange={"Start": 5, "End": 2}) == "400 InvalidScanRange"
    assert select_client.refusal("p.csv", sql, ScanRange={"Start": len(PEOPLE)}) == "400 InvalidScanRange"
    assert select_client.refusal("p.csv", f"{sql} WHERE '{'x' * 262_144}' = ''") == "400 ExpressionTooLong"
    packed = {**CSV, "CompressionType": "GZIP"}
    assert (
        select_client.refusal("p.csv", sql, packed, ScanRange={"Start": 0, "End": 5}) == "400 UnsupportedScanRangeInput"
    )


def test_failure_after_the_first_byte_is_an_error_event(select_client: SelectClient) -> None:
    select_client.put("late.csv", b"".join(b"%d\n" % number for number in range(300_000)) + b"oops\n")
    with pytest.raises(EventStreamError) as caught:
        select_client.select("late.csv", "SELECT CAST(s._1 AS INT) FROM S3Object s")
    assert caught.value.response["Error"]["Code"] == "CastFailed"


def test_select_requires_permission_to_read(
    select_client: SelectClient, lakebed_server: RunningServer, connect: Connect
) -> None:
    select_client.put("p.csv", PEOPLE)
    unprivileged = make_user(lakebed_server)
    reader = make_user(lakebed_server, "readonly")
    sql = "SELECT COUNT(*) FROM S3Object"
    for keys in (unprivileged.keys, ANONYMOUS):
        refused = SelectClient(connect(lakebed_server, keys), select_client.bucket)
        assert refused.refusal("p.csv", sql) == "403 AccessDenied"
    assert SelectClient(connect(lakebed_server, reader.keys), select_client.bucket).select("p.csv", sql).text == "4\n"


# -- disconnects -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_disconnected_clients_leave_no_running_query(
    select_client: SelectClient, lakebed_server: RunningServer, connect: Connect
) -> None:
    """More selects than may run at a time: a leftover query would make the last one fail with SlowDown."""
    select_client.put("big.csv", b"".join(b"%07d,%s\n" % (number, b"z" * 120) for number in range(200_000)))
    before = counted(lakebed_server, CANCELLED)
    for number in range(12):
        answer = select_client.open("big.csv", "SELECT * FROM S3Object")
        events = iter(answer["Payload"])
        assert any("Records" in next(events) for _ in range(20))
        answer["Payload"].close()
        deadline = time.monotonic() + 30
        while counted(lakebed_server, CANCELLED) < before + number + 1:
            assert time.monotonic() < deadline, "a query outlived its client"
            time.sleep(0.02)
    assert select_client.select("big.csv", "SELECT COUNT(*) FROM S3Object").text == "200000\n"
