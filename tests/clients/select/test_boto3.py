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
from tests.clients.people import make_user
from tests.fixtures.server import RunningServer

from .conftest import CSV, JSON, LINES, NAMED_CSV, PARQUET, Asking, counted

pytestmark = pytest.mark.integration

PEOPLE = b"name,age\nAnn,31\nBob,29\nCid,42\n"
CANCELLED = 'lakebed_select_requests_total{outcome="cancelled"}'


def records(text: str) -> list[Any]:  # Any: JSON
    return [json.loads(line) for line in text.splitlines()]


def test_csv_by_position(asking: Asking) -> None:
    asking.put("p.csv", b"1,a\n2,b\n3,c\n")
    found = asking.ask("p.csv", "SELECT s._2 FROM S3Object s WHERE CAST(s._1 AS INT) > 1")
    assert found.text == "b\nc\n"
    assert found.events[-2:] == ["Stats", "End"]
    assert found.stats == {"BytesScanned": 12, "BytesProcessed": 12, "BytesReturned": 4}


def test_csv_by_name_to_json(asking: Asking) -> None:
    asking.put("p.csv", PEOPLE)
    found = asking.ask("p.csv", "SELECT s.name, s.age FROM S3Object s WHERE CAST(s.age AS INT) > 30", NAMED_CSV, JSON)
    assert records(found.text) == [{"name": "Ann", "age": "31"}, {"name": "Cid", "age": "42"}]


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("BZIP2", bz2.compress)])
def test_compressed_csv(name: str, pack: Any, asking: Asking) -> None:  # Any: a function of bytes
    packed = pack(PEOPLE)
    asking.put("p.csv", packed)
    found = asking.ask("p.csv", "SELECT COUNT(*) FROM S3Object", {**NAMED_CSV, "CompressionType": name})
    assert found.text == "3\n"
    assert (found.stats["BytesScanned"], found.stats["BytesProcessed"]) == (len(packed), len(PEOPLE))


def test_json_lines_and_documents(asking: Asking) -> None:
    asking.put("l.json", b'{"a":{"b":[1,2]},"c":"x"}\n{"a":{"b":[3]},"c":null}\n')
    assert records(asking.ask("l.json", "SELECT s.a.b[0] AS first, s.c FROM S3Object s", LINES, JSON).text) == [
        {"first": 1, "c": "x"},
        {"first": 3, "c": None},
    ]
    asking.put("d.json", b'{"rows": [\n {"n": 1},\n {"n": 2}\n]}')
    document = {"JSON": {"Type": "DOCUMENT"}}
    assert records(asking.ask("d.json", "SELECT r.n FROM S3Object[*].rows[*] r", document, JSON).text) == [
        {"n": 1},
        {"n": 2},
    ]


def test_parquet(asking: Asking) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
    file = io.BytesIO()
    pq.write_table(table, file, compression="snappy")
    asking.put("t.parquet", file.getvalue())
    assert asking.ask("t.parquet", "SELECT s.id, s.name FROM S3Object s WHERE s.id >= 2", PARQUET).text == "2,b\n3,\n"


def test_every_option_of_csv_reaches_the_reader(asking: Asking) -> None:
    asking.put("odd.csv", b"; a remark\r\nx|y\r\n'1|2'|'it''s'\r\n'a\r\nb'|4\r\n")
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
    found = asking.ask("odd.csv", "SELECT * FROM S3Object", source, target)
    # The quotes of the output are escaped as its own options say: by the default, a double quote.
    assert found.text == "'1|2'\t'it\"'s'\r\n'a\r\nb'\t'4'\r\n"


def test_ranges_cover_each_record_once(asking: Asking) -> None:
    body = b"".join(b"%d,%s\n" % (number, b"x" * (number % 7)) for number in range(500))
    asking.put("r.csv", body)
    whole = asking.ask("r.csv", "SELECT s._1 FROM S3Object s").text
    parts, step = [], 777
    for start in range(0, len(body), step):
        bounds = {"Start": start, "End": min(start + step, len(body)) - 1}
        parts.append(asking.ask("r.csv", "SELECT s._1 FROM S3Object s", ScanRange=bounds).text)
    assert "".join(parts) == whole
    assert len(parts) > 3


def test_progress_is_told_and_ends_at_the_size_of_the_object(asking: Asking) -> None:
    body = b"".join(b"%d\n" % number for number in range(200_000))
    asking.put("n.csv", body)
    found = asking.ask("n.csv", "SELECT SUM(CAST(s._1 AS INT)) FROM S3Object s", RequestProgress={"Enabled": True})
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
    quiet = asking.ask("n.csv", "SELECT COUNT(*) FROM S3Object s")
    assert "Progress" not in quiet.events


def test_much_comes_in_messages_that_every_decoder_takes(asking: Asking) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(40_000))
    asking.put("big.csv", body)
    found = asking.ask("big.csv", "SELECT * FROM S3Object")
    assert found.records == body
    assert max(found.sizes) + 16 + 85 <= 131_072 - 256


def test_the_version_that_was_current_is_read_to_its_end(asking: Asking) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(40_000))
    asking.put("big.csv", body)
    answer = asking.open("big.csv", "SELECT * FROM S3Object")
    asking.put("big.csv", b"other\n")
    read = b"".join(event["Records"]["Payload"] for event in answer["Payload"] if "Records" in event)
    assert read == body


def test_encryption_is_told(asking: Asking) -> None:
    asking.put("s.csv", b"1\n", ServerSideEncryption="AES256")
    found = asking.ask("s.csv", "SELECT * FROM S3Object")
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
def test_a_query_that_cannot_be_answered_is_refused_with_its_code(sql: str, expected: str, asking: Asking) -> None:
    asking.put("p.csv", PEOPLE)
    assert asking.refusal("p.csv", sql).startswith(expected)


def test_a_request_that_cannot_be_is_refused_with_its_code(asking: Asking) -> None:
    asking.put("p.csv", PEOPLE)
    sql = "SELECT * FROM S3Object"
    assert asking.refusal("absent", sql) == "404 NoSuchKey"
    assert asking.refusal("p.csv", sql, {}) == "400 MissingRequiredParameter"
    assert asking.refusal("p.csv", sql, {"CSV": {}, "Parquet": {}}) == "400 ObjectSerializationConflict"
    assert asking.refusal("p.csv", sql, {"CSV": {"FileHeaderInfo": "X"}}) == "400 InvalidFileHeaderInfo"
    assert asking.refusal("p.csv", sql, {"JSON": {"Type": "X"}}) == "400 InvalidJsonType"
    assert asking.refusal("p.csv", sql, {**CSV, "CompressionType": "X"}) == "400 InvalidCompressionFormat"
    assert asking.refusal("p.csv", sql, {**CSV, "CompressionType": "GZIP"}) == "400 InvalidCompressionFormat"
    assert asking.refusal("p.csv", sql, CSV, {"CSV": {"QuoteFields": "X"}}) == "400 InvalidQuoteFields"
    assert asking.refusal("p.csv", sql, ScanRange={"Start": 5, "End": 2}) == "400 InvalidScanRange"
    assert asking.refusal("p.csv", sql, ScanRange={"Start": len(PEOPLE)}) == "400 InvalidScanRange"
    assert asking.refusal("p.csv", f"{sql} WHERE '{'x' * 262_144}' = ''") == "400 ExpressionTooLong"
    packed = {**CSV, "CompressionType": "GZIP"}
    assert asking.refusal("p.csv", sql, packed, ScanRange={"Start": 0, "End": 5}) == "400 UnsupportedScanRangeInput"


def test_a_failure_under_way_is_an_error_of_the_stream(asking: Asking) -> None:
    asking.put("late.csv", b"".join(b"%d\n" % number for number in range(300_000)) + b"oops\n")
    with pytest.raises(EventStreamError) as caught:
        asking.ask("late.csv", "SELECT CAST(s._1 AS INT) FROM S3Object s")
    assert caught.value.response["Error"]["Code"] == "CastFailed"


def test_who_may_not_read_may_not_select(asking: Asking, lakebed_server: RunningServer, connect: Connect) -> None:
    asking.put("p.csv", PEOPLE)
    nobody = make_user(lakebed_server)
    reader = make_user(lakebed_server, "readonly")
    sql = "SELECT COUNT(*) FROM S3Object"
    for keys in (nobody.keys, ANONYMOUS):
        refused = Asking(connect(lakebed_server, keys), asking.bucket)
        assert refused.refusal("p.csv", sql) == "403 AccessDenied"
    assert Asking(connect(lakebed_server, reader.keys), asking.bucket).ask("p.csv", sql).text == "4\n"


# -- hanging up --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_clients_that_hang_up_leave_no_query(asking: Asking, lakebed_server: RunningServer, connect: Connect) -> None:
    """More of them than may run at a time: if one were left, the last of them would be told to slow down."""
    asking.put("big.csv", b"".join(b"%07d,%s\n" % (number, b"z" * 120) for number in range(200_000)))
    before = counted(lakebed_server, CANCELLED)
    for number in range(12):
        answer = asking.open("big.csv", "SELECT * FROM S3Object")
        events = iter(answer["Payload"])
        assert any("Records" in next(events) for _ in range(20))
        answer["Payload"].close()
        deadline = time.monotonic() + 30
        while counted(lakebed_server, CANCELLED) < before + number + 1:
            assert time.monotonic() < deadline, "a query outlived its client"
            time.sleep(0.02)
    assert asking.ask("big.csv", "SELECT COUNT(*) FROM S3Object").text == "200000\n"
