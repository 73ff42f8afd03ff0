from __future__ import annotations

from collections.abc import Callable

import pytest

from lakebed.client.streams.connection import failure_of
from lakebed.client.streams.kv_scans import KvBatchScanner, PhysicalTable, ScanState
from lakebed.client.streams.messages import Fields, number, read_fields, text, write_fields
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import ValueRecordBatch
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.rows.layout import RowLayout
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.wire.fluss.errors import error_code

OLD = Schema.of([("k", DataType(TypeRoot.INT)), ("name", DataType(TypeRoot.STRING))], primary_key=["k"])
NEW = OLD.with_column("n", DataType(TypeRoot.BIGINT))
TABLE = PhysicalTable("fluss", "t", 7, 2, NEW, RowFormat.COMPACTED, 2)


def value(schema_id: int, *row: object) -> bytes:
    schema = OLD if schema_id == 1 else NEW
    layout = RowLayout(RowFormat.COMPACTED, [column.type for column in schema.columns])
    return schema_id.to_bytes(2, "little") + layout.encode(row)


class Server:
    """Responds with pages of rows by bucket, or with errors."""

    def __init__(self, pages: dict[int, list[list[bytes]]]) -> None:
        self.pages = pages
        self.errors: list[int] = []
        self.lost: list[ErrorCode] = []
        self.calls: list[Fields] = []
        self.closed: list[bytes] = []
        self.refreshes = 0

    def call(self, key: int, message: bytes) -> Fields:
        if key == 1011:
            import msgspec

            return read_fields(write_fields({1: 1, 2: msgspec.json.encode(OLD.document())}))
        assert key == 1061
        if self.lost:
            raise FlussError(self.lost.pop(0))
        request = read_fields(message)
        self.calls.append(request)
        if number(request, 5):
            self.closed.append(text(request, 1))
            return {}
        if self.errors:
            return read_fields(write_fields({1: self.errors.pop(0), 2: "not now"}))
        if 2 in request:
            bucket = number(read_fields(text(request, 2)), 3)
            at = number(request, 3)
            assert at == 0
        else:
            bucket, at = int(text(request, 1)), number(request, 3)
        pages = self.pages[bucket]
        if not pages:
            return read_fields(write_fields({4: False, 6: 40 + bucket}))
        return read_fields(
            write_fields(
                {
                    3: b"%d" % bucket,
                    4: at + 1 < len(pages),
                    5: _batch(pages[at]),
                    6: 40 + bucket if at == 0 else None,
                }
            )
        )

    def refresh_leader(self) -> None:
        self.refreshes += 1


def _batch(values: list[bytes]) -> bytes:
    batch = ValueRecordBatch()
    batch.add(values)
    return b"".join(batch.pieces())


def scanner(server: Server, **others: object) -> tuple[KvBatchScanner, list[float]]:
    pauses: list[float] = []
    clock: Callable[[], float] = lambda: sum(pauses)  # noqa: E731 - only sleeping advances time
    return KvBatchScanner(server, TABLE, sleep=pauses.append, monotonic=clock, **others), pauses  # type: ignore[arg-type]  # by keyword


def test_scan_returns_rows_of_all_buckets_and_schemas() -> None:
    server = Server({0: [[value(2, 1, "a", 10), value(1, 2, "b")], [value(2, 3, None, None)]], 1: [[value(1, 9, "z")]]})
    scan, _ = scanner(server)
    assert scan.states == {0: ScanState.PENDING, 1: ScanState.PENDING}
    rows = [batch.to_pylist() for batch in scan]
    assert rows == [
        [{"k": 1, "name": "a", "n": 10}, {"k": 2, "name": "b", "n": None}],
        [{"k": 3, "name": None, "n": None}],
        [{"k": 9, "name": "z", "n": None}],
    ]
    assert set(scan.states.values()) == {ScanState.DONE}
    assert scan.log_offsets == {0: 40, 1: 41}
    scan.close()
    assert server.closed == []
    assert [number(call, 3) for call in server.calls] == [0, 1, 0]
    assert {number(call, 4) for call in server.calls} == {4 * 1024 * 1024}


def test_fetch_size_is_sent_with_every_call() -> None:
    server = Server({0: [[value(2, 1, "a", 10)]], 1: []})
    scan, _ = scanner(server, scanner_kv_fetch_max_bytes=50)
    assert len(list(scan)) == 1
    assert {number(call, 4) for call in server.calls} == {50}


def test_columns_are_projected_in_the_given_order() -> None:
    server = Server({0: [[value(2, 1, "a", 10)]], 1: []})
    scan, _ = scanner(server, columns=["n", "k"])
    assert [batch.to_pylist() for batch in scan] == [[{"n": 10, "k": 1}]]
    with pytest.raises(FlussError):
        scanner(server, columns=["none"])
    with pytest.raises(FlussError):
        scanner(server, buckets=[2])


@pytest.mark.parametrize("code", [12, 21, 44, 69])
def test_opening_is_retried_after_retriable_errors(code: int) -> None:
    server = Server({0: [[value(2, 1, "a", 10)]], 1: []})
    server.errors = [code] * 3
    scan, pauses = scanner(server)
    assert sum(batch.num_rows for batch in scan) == 1
    assert pauses == [0.1, 0.2, 0.4]
    assert server.refreshes == (0 if code == 69 else 3)


def test_opening_gives_up_after_a_minute() -> None:
    server = Server({0: [], 1: []})
    server.errors = [69] * 1000
    scan, pauses = scanner(server, buckets=[0])
    with pytest.raises(FlussError) as failed:
        scan.next_batch()
    assert failed.value.code is ErrorCode.TOO_MANY_SCANNERS
    assert 50 < sum(pauses) <= 60
    assert scan.states == {0: ScanState.DONE}


@pytest.mark.parametrize("code", [48, 20, 2])
def test_opening_fails_at_once_after_permanent_errors(code: int) -> None:
    server = Server({0: [], 1: []})
    server.errors = [code]
    scan, pauses = scanner(server)
    with pytest.raises(FlussError):
        scan.next_batch()
    assert (pauses, scan.states[0]) == ([], ScanState.DONE)


@pytest.mark.parametrize(("code", "closes"), [(66, False), (67, False), (68, True), (12, True)])
def test_active_scan_is_not_reopened(code: int, closes: bool) -> None:
    server = Server({0: [[value(2, 1, "a", 1)], [value(2, 2, "b", 2)]], 1: []})
    scan, pauses = scanner(server)
    assert scan.next_batch() is not None
    server.errors = [code]
    with pytest.raises(FlussError):
        scan.next_batch()
    assert (pauses, scan.states[0]) == ([], ScanState.DONE)
    assert server.closed == ([b"0"] if closes else [])


def test_leaving_a_scan_early_closes_it_on_the_server() -> None:
    server = Server({0: [[value(2, 1, "a", 1)], [value(2, 2, "b", 2)]], 1: []})
    scan, _ = scanner(server)
    with scan:
        assert scan.next_batch() is not None
        assert scan.states[0] is ScanState.ACTIVE
    scan.close()
    assert server.closed == [b"0"]
    assert scan.next_batch() is None


def test_close_never_fails() -> None:
    server = Server({0: [[value(2, 1, "a", 1)], [value(2, 2, "b", 2)]], 1: []})
    scan, _ = scanner(server)
    scan.next_batch()
    server.lost = [ErrorCode.LEADER_NOT_AVAILABLE]
    scan.close()
    assert scan.states[0] is ScanState.DONE


def test_log_table_cannot_be_scanned() -> None:
    table = PhysicalTable("fluss", "t", 7, 1, Schema.of([("a", DataType(TypeRoot.INT))]), RowFormat.COMPACTED, 1)
    with pytest.raises(FlussError) as failed:
        KvBatchScanner(Server({}), table)
    assert failed.value.code is ErrorCode.NON_PRIMARY_KEY_TABLE


def test_error_codes_match_the_server() -> None:
    passing = {1, 3, 14, 28, 29, 70, 73}
    assert {code: error_code(failure_of(code.number, b"")) for code in ErrorCode if code.number not in passing} == {
        code: code.number for code in ErrorCode if code.number not in passing
    }
    assert {failure_of(number, b"").code for number in passing} == {ErrorCode.STORAGE}
