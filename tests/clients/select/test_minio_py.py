"""minio-py's select_object_content on a running server. It verifies both checksums of every message."""

from __future__ import annotations

import io
import json

import pytest
from minio import Minio, S3Error
from minio.error import MinioException
from minio.select import (
    CSVInputSerialization,
    CSVOutputSerialization,
    JSONInputSerialization,
    JSONOutputSerialization,
    SelectRequest,
)

from tests.clients.boto import REGION
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

PEOPLE = b"name,age\nAnn,31\nBob,29\nCid,42\n"


@pytest.fixture
def minio(lakebed_server: RunningServer) -> Minio:
    return Minio(
        lakebed_server.endpoint.removeprefix("http://"),
        access_key=lakebed_server.access_key,
        secret_key=lakebed_server.secret_key,
        secure=False,
        region=REGION,
    )


def put(minio: Minio, bucket: str, key: str, body: bytes) -> None:
    minio.put_object(bucket, key, io.BytesIO(body), len(body))


def read(minio: Minio, bucket: str, key: str, request: SelectRequest) -> tuple[bytes, int]:
    """The records, and the number of scanned bytes."""
    with minio.select_object_content(bucket, key, request) as result:
        found = b"".join(result.stream())
        stats = result.stats()
    assert stats is not None
    return found, int(stats.bytes_scanned or -1)


def test_csv_with_column_names(minio: Minio, bucket: str) -> None:
    put(minio, bucket, "p.csv", PEOPLE)
    request = SelectRequest(
        "SELECT s.name FROM S3Object s WHERE CAST(s.age AS INT) > 30",
        CSVInputSerialization(file_header_info="USE", record_delimiter="\n"),
        CSVOutputSerialization(quote_fields="ALWAYS"),
        request_progress=True,
    )
    assert read(minio, bucket, "p.csv", request) == (b'"Ann"\n"Cid"\n', len(PEOPLE))


def test_json_lines(minio: Minio, bucket: str) -> None:
    put(minio, bucket, "l.json", b'{"a":1}\n{"a":2}\n')
    request = SelectRequest(
        "SELECT s.a FROM S3Object s WHERE s.a > 1", JSONInputSerialization(json_type="LINES"), JSONOutputSerialization()
    )
    found, _ = read(minio, bucket, "l.json", request)
    assert json.loads(found) == {"a": 2}


def test_scan_range_of_an_object(minio: Minio, bucket: str) -> None:
    put(minio, bucket, "n.csv", b"1\n2\n3\n4\n")
    request = SelectRequest(
        "SELECT * FROM S3Object",
        CSVInputSerialization(),
        CSVOutputSerialization(),
        # As text: minio-py inserts the values into its XML unconverted.
        scan_start_range="2",  # type: ignore[arg-type]
        scan_end_range="5",  # type: ignore[arg-type]
    )
    found, _ = read(minio, bucket, "n.csv", request)
    assert found == b"2\n3\n"


def test_results_of_many_messages(minio: Minio, bucket: str) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(20_000))
    put(minio, bucket, "big.csv", body)
    request = SelectRequest("SELECT * FROM S3Object", CSVInputSerialization(), CSVOutputSerialization())
    assert read(minio, bucket, "big.csv", request) == (body, len(body))


def test_refused_and_failed_selects(minio: Minio, bucket: str) -> None:
    put(minio, bucket, "p.csv", PEOPLE)
    request = SelectRequest("SELECT * FROM elsewhere", CSVInputSerialization(), CSVOutputSerialization())
    with pytest.raises(S3Error) as refused:
        minio.select_object_content(bucket, "p.csv", request)
    assert refused.value.code == "DataSourcePathUnsupported"

    put(minio, bucket, "late.csv", b"".join(b"%d\n" % number for number in range(300_000)) + b"oops\n")
    request = SelectRequest(
        "SELECT CAST(s._1 AS INT) FROM S3Object s", CSVInputSerialization(), CSVOutputSerialization()
    )
    with (
        minio.select_object_content(bucket, "late.csv", request) as result,
        pytest.raises(MinioException, match="CastFailed"),
    ):
        list(result.stream())
