"""Selects over all objects under a prefix."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, NoSuchBucket, NoSuchKey, SelectError
from lakebed.select.model import (
    AvroInput,
    Compression,
    CsvInput,
    Input,
    JsonInput,
    ParquetInput,
    SelectLimits,
)
from lakebed.select.service import RunningSelect, SelectService
from tests.fixtures.descriptors import open_descriptors, opened_since
from tests.objects.stores import ROOT, ObjectStore, opened_store, user
from tests.select.running import DOCUMENT, HEADED, request


@pytest.fixture(params=["memory", "folder"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    """An object store that streams objects, and one that opens files."""
    async with opened_store(
        f"sqlite:{tmp_path / 'meta.db'}", request.param, tmp_path / "bytes", ManualClock()
    ) as opened:
        await opened.bucket("bucket")
        yield opened


@pytest.fixture
def selects(store: ObjectStore, tmp_path: Path) -> SelectService:
    return SelectService(store.reader, store.lister, store.clock, SelectLimits(partitions=2), tmp_path)


async def read(running: RunningSelect) -> bytes:
    try:
        return b"".join([part async for part in running])
    finally:
        await running.aclose()


def table(**columns: object) -> bytes:
    file = BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def avro(*names: str) -> bytes:
    import fastavro

    file = BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "name", "type": "string"}]}
    fastavro.writer(file, schema, [{"name": name} for name in names])
    return file.getvalue()


def policy(*statements: object) -> bytes:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()


async def put(store: ObjectStore, *bodies: bytes, encrypt: bool = False) -> None:
    for number, body in enumerate(bodies):
        await store.put("bucket", f"p/{number:03}", body, encrypt=encrypt)


@pytest.mark.parametrize(
    ("bodies", "source", "expression", "expected"),
    [
        ([b"1\n2\n", b"3\n", b"4"], CsvInput(), "SELECT _1 FROM S3Object", b"1\n2\n3\n4\n"),
        ([b"1\n2\n", b"3\n"], CsvInput(), "SELECT _1 FROM S3Object LIMIT 1", b"1\n"),
        ([b"1\n2\n", b"3\n"], CsvInput(), "SELECT SUM(CAST(_1 AS INT)), COUNT(*) FROM S3Object", b"6,3\n"),
        ([b"1\n2\n", b"3\n"], CsvInput(), "SELECT _1 FROM S3Object ORDER BY _1 DESC", b"3\n2\n1\n"),
        ([b"1,x\n", b"2\n", b"3,y,z\n"], CsvInput(), "SELECT _1, _2 FROM S3Object", b"1,x\n2,\n3,y\n"),
        ([b"a,b\n1,2\n", b"c,b,a\n5,4,3\n"], HEADED, "SELECT s.a, s.b FROM S3Object s", b"1,2\n3,4\n"),
        ([b'{"a":1}\n', b'{"a":"x"}\n'], JsonInput(), "SELECT s.a FROM S3Object s", b"1\nx\n"),
        ([b'[{"a":1},{"a":2}]', b'[{"a":3}]'], DOCUMENT, "SELECT SUM(s.a) FROM S3Object[*][*] s", b"6\n"),
        ([avro("x"), avro("y", "z")], AvroInput(), "SELECT s.name FROM S3Object s", b"x\ny\nz\n"),
        ([table(a=[1]), table(b=[0], a=[2])], ParquetInput(), "SELECT s.a FROM S3Object s", b"1\n2\n"),
        (
            [table(a=[1, 5]), table(a=pa.array([9], pa.int32()))],
            ParquetInput(),
            "SELECT COUNT(*) FROM S3Object s WHERE s.a > 4",
            b"2\n",
        ),
    ],
)
async def test_objects_are_queried_as_one(
    store: ObjectStore, selects: SelectService, bodies: list[bytes], source: Input, expression: str, expected: bytes
) -> None:
    await put(store, *bodies)
    await store.put("bucket", "other", b"not this one\n")
    running = await selects.open_prefix(ROOT, "bucket", "p/", request(expression, source))
    assert await read(running) == expected
    assert selects.running == 0


async def test_compression_is_taken_from_the_key_suffix(store: ObjectStore, selects: SelectService) -> None:
    await store.put("bucket", "p/a.csv", b"1\n")
    await store.put("bucket", "p/b.csv.gz", gzip.compress(b"2\n"))
    assert await read(await selects.open_prefix(ROOT, "bucket", "p/", request("SELECT * FROM S3Object"))) == b"1\n2\n"
    select_request = request("SELECT * FROM S3Object", compression=Compression.GZIP)
    with pytest.raises(SelectError) as caught:
        await selects.open_prefix(ROOT, "bucket", "p/", select_request)
    assert caught.value.code == "InvalidCompressionFormat"


@pytest.mark.parametrize("encrypt", [False, True])
async def test_many_objects_are_read_in_key_order_and_counted(
    store: ObjectStore, selects: SelectService, encrypt: bool
) -> None:
    await put(store, *(b"%d\n" % number for number in range(150)), b"", encrypt=encrypt)
    await store.put("bucket", "p/folder/", b"")
    running = await selects.open_prefix(ROOT, "bucket", "p/", request("SELECT * FROM S3Object"))
    expected = b"".join(b"%d\n" % number for number in range(150))
    assert await read(running) == expected
    assert running.counts.scanned == running.counts.processed == running.counts.returned == len(expected)
    assert running.found is None


@pytest.mark.parametrize(
    ("bodies", "source", "expression", "code"),
    [
        ([b"a\n1\n", b"b\n1\n"], HEADED, "SELECT s.a FROM S3Object s", "MissingHeaderName"),
        ([table(a=[1]), table(b=[1])], ParquetInput(), "SELECT s.a FROM S3Object s", "EvaluatorBindingDoesNotExist"),
        ([table(a=[1]), table(a=["x"])], ParquetInput(), "SELECT s.a FROM S3Object s", "InvalidDataType"),
        ([b"1\n", b"x\n"], CsvInput(), "SELECT CAST(_1 AS INT) FROM S3Object", "CastFailed"),
        ([b"{}\n", b"{\n"], JsonInput(), "SELECT * FROM S3Object", "JSONParsingError"),
    ],
)
async def test_object_with_other_columns_fails_the_query(
    store: ObjectStore, selects: SelectService, bodies: list[bytes], source: Input, expression: str, code: str
) -> None:
    await put(store, *bodies)
    with pytest.raises(SelectError) as caught:
        await read(await selects.open_prefix(ROOT, "bucket", "p/", request(expression, source)))
    assert caught.value.code == code
    if code != "CastFailed":
        assert "p/001" in str(caught.value)
    assert selects.running == 0


async def test_scan_range_requires_a_single_object(store: ObjectStore, selects: SelectService) -> None:
    await put(store, b"1\n")
    with pytest.raises(SelectError) as caught:
        await selects.open_prefix(ROOT, "bucket", "p/", request("SELECT * FROM S3Object", scan=(0, 1)))
    assert caught.value.code == "UnsupportedScanRangeInput"


async def test_prefix_without_objects_raises_no_such_key(store: ObjectStore, selects: SelectService) -> None:
    with pytest.raises(NoSuchKey):
        await selects.open_prefix(ROOT, "bucket", "nothing/", request("SELECT * FROM S3Object"))
    with pytest.raises(NoSuchBucket):
        await selects.open_prefix(ROOT, "no-such-bucket", "", request("SELECT * FROM S3Object"))
    assert selects.running == 0


async def test_query_requires_list_and_read_permissions(store: ObjectStore, selects: SelectService) -> None:
    await put(store, b"1\n", b"2\n")
    lists = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
    gets = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    gets_one = {**gets, "Resource": "arn:aws:s3:::bucket/p/000"}
    select_request = request("SELECT * FROM S3Object")
    for allowed in ([lists], [gets], [lists, gets_one]):
        with pytest.raises(AccessDenied):
            await read(await selects.open_prefix(user("ann", policy(*allowed)), "bucket", "p/", select_request))
    assert (
        await read(await selects.open_prefix(user("ann", policy(lists, gets)), "bucket", "p/", select_request))
        == b"1\n2\n"
    )


async def test_closed_query_closes_all_objects(store: ObjectStore, selects: SelectService) -> None:
    await put(store, *(b"%d\n" % number * 100_000 for number in range(40)))
    before = open_descriptors()
    running = await selects.open_prefix(ROOT, "bucket", "p/", request("SELECT * FROM S3Object"))
    pieces = aiter(running)
    await anext(pieces)
    await running.aclose()
    assert selects.running == 0
    assert not opened_since(before)
    assert running.counts.scanned < 40 * 200_000
