"""Cached plans: what is cached, and that queries do not affect each other."""

from __future__ import annotations

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.core.errors import SelectError
from lakebed.select.dialect.statement import read_statement
from lakebed.select.execution.engine import Execution, plan
from lakebed.select.execution.plan_cache import MAX_RUNS, PlanCache
from lakebed.select.model import CsvInput, CsvOutput, HeaderUse, Input, JsonOutput, Output, ParquetInput
from lakebed.select.sources.byte_streams import Meter
from lakebed.select.sources.object_bytes import LocalBytes
from tests.select.running import HEADED, LIMITS, LINES, NOW, request
from tests.select.test_parquet_queries import stored


def start(
    plan_cache: PlanCache, expression: str, data: bytes, read: Input | None = None, write: Output | None = None
) -> Execution:
    return plan(LocalBytes([data]), request(expression, read, write), LIMITS, Meter(), NOW, None, plan_cache)


def run(
    plan_cache: PlanCache, expression: str, data: bytes, read: Input | None = None, write: Output | None = None
) -> bytes:
    execution = start(plan_cache, expression, data, read, write)
    try:
        parts = []
        while part := execution.gather():
            parts.append(part)
        return b"".join(parts)
    finally:
        execution.stop()


NUMBERS = b"a,b\n1,x\n2,y\n3,z\n"
OTHERS = b"a,b\n7,x\n8,y\n"


@pytest.mark.parametrize(
    ("expression", "for_numbers", "for_others"),
    [
        ("SELECT s.b FROM S3Object s WHERE CAST(s.a AS INT) > 1", b"y\nz\n", b"x\ny\n"),
        ("SELECT * FROM S3Object LIMIT 1", b"1,x\n", b"7,x\n"),
        ("SELECT COUNT(*) FROM S3Object", b"3\n", b"2\n"),
        ("SELECT MIN(CAST(a AS INT)), MAX(CAST(a AS INT)), SUM(CAST(a AS INT)) FROM S3Object", b"1,3,6\n", b"7,8,15\n"),
        ("SELECT MAX(b), AVG(CAST(a AS FLOAT)) FROM S3Object WHERE a <> '2'", b"z,2\n", b"y,7.5\n"),
    ],
)
def test_cached_plan_runs_for_several_objects(expression: str, for_numbers: bytes, for_others: bytes) -> None:
    plan_cache = PlanCache()
    for _ in range(3):
        assert run(plan_cache, expression, NUMBERS, HEADED) == for_numbers
        assert len(plan_cache) == 1
        assert run(plan_cache, expression, OTHERS, HEADED) == for_others
        assert len(plan_cache) == 1


@pytest.mark.parametrize(
    "expression",
    [
        "SELECT a FROM S3Object ORDER BY a",
        "SELECT a FROM S3Object ORDER BY a LIMIT 1",
        "SELECT DISTINCT a FROM S3Object",
        "SELECT a, COUNT(*) FROM S3Object GROUP BY a",
        "SELECT COUNT(DISTINCT a) FROM S3Object",
        "SELECT a, ROW_NUMBER() OVER (ORDER BY a) FROM S3Object",
    ],
)
def test_plans_that_hold_records_are_not_cached(expression: str) -> None:
    plan_cache = PlanCache()
    first = run(plan_cache, expression, NUMBERS, HEADED)
    assert run(plan_cache, expression, OTHERS, HEADED) != first
    assert run(plan_cache, expression, NUMBERS, HEADED) == first
    assert len(plan_cache) == 0


def test_different_options_do_not_share_a_plan() -> None:
    plan_cache = PlanCache()
    every = "SELECT * FROM S3Object"
    for _ in range(2):
        assert run(plan_cache, every, NUMBERS, HEADED) == b"1,x\n2,y\n3,z\n"
        assert run(plan_cache, every, NUMBERS, CsvInput()) == b"a,b\n1,x\n2,y\n3,z\n"
        assert run(plan_cache, every, NUMBERS, CsvInput(header=HeaderUse.USE, field_delimiter=";")) == (
            b'"1,x"\n"2,y"\n"3,z"\n'
        )
        assert run(plan_cache, every, NUMBERS, HEADED, CsvOutput(field_delimiter="|")) == b"1|x\n2|y\n3|z\n"
        assert run(plan_cache, every, OTHERS, HEADED, JsonOutput()) == b'{"a":"7","b":"x"}\n{"a":"8","b":"y"}\n'


def test_equal_expressions_over_other_columns_do_not_share_a_plan() -> None:
    plan_cache = PlanCache()
    query = "SELECT s.b FROM S3Object s"
    for _ in range(2):
        assert run(plan_cache, query, b"a,b\n1,2\n", HEADED) == b"2\n"
        assert run(plan_cache, query, b"b,a\n1,2\n", HEADED) == b"1\n"
        assert run(plan_cache, query, b"a,b,c\n1,2,3\n", HEADED) == b"2\n"
        assert run(plan_cache, query, b'{"b":1}\n', LINES) == b"1\n"
        assert run(plan_cache, query, b'{"b":"t"}\n', LINES) == b"t\n"


def test_cached_plan_prunes_row_groups() -> None:
    data, plan_cache = stored(), PlanCache()

    def scanned(expression: str) -> int:
        meter = Meter()
        query = request(expression, ParquetInput())
        execution = plan(LocalBytes([data]), query, LIMITS, meter, NOW, None, plan_cache)
        while execution.gather():
            pass
        execution.stop()
        return meter.counts.scanned

    first, again = (scanned("SELECT name FROM S3Object WHERE id = 5") for _ in range(2))
    assert len(plan_cache) == 1
    assert first == again < scanned("SELECT name FROM S3Object WHERE id + 0 = 5")


def test_failed_query_does_not_affect_later_ones() -> None:
    plan_cache = PlanCache()
    query = "SELECT CAST(a AS INT) FROM S3Object"
    assert run(plan_cache, query, NUMBERS, HEADED) == b"1\n2\n3\n"
    with pytest.raises(SelectError) as raised:
        run(plan_cache, query, b"a,b\nno,x\n", HEADED)
    assert raised.value.code == "CastFailed"
    assert len(plan_cache) == 0
    assert run(plan_cache, query, NUMBERS, HEADED) == b"1\n2\n3\n"
    with pytest.raises(SelectError) as raised:
        run(plan_cache, query, b"a,b\n1,x,y\n", HEADED)
    assert raised.value.code == "CSVParsingError"
    assert run(plan_cache, query, OTHERS, HEADED) == b"7\n8\n"


def test_invalid_constant_has_its_s3_code() -> None:
    plan_cache = PlanCache()
    for _ in range(2):
        with pytest.raises(SelectError) as raised:
            run(plan_cache, "SELECT TO_TIMESTAMP('nonsense') FROM S3Object", b"1\n")
        assert raised.value.code not in ("", "InternalError")
    assert len(plan_cache) == 0


def test_plan_of_a_stopped_query_is_not_cached() -> None:
    plan_cache = PlanCache()
    start(plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED).stop()
    assert len(plan_cache) == 0


def test_concurrent_queries_use_separate_plans() -> None:
    plan_cache = PlanCache()
    query = "SELECT s.a FROM S3Object s"
    first, second = (start(plan_cache, query, data, HEADED) for data in (NUMBERS, OTHERS))
    assert second.gather() == b"7\n8\n"
    assert first.gather() == b"1\n2\n3\n"
    first.stop()
    second.stop()
    assert len(plan_cache) == 2

    objects = [b"a\n" + b"%d\n" % number * 50 for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda data: run(plan_cache, query, data, HEADED), objects))
    assert answers == [data[2:] for data in objects]


def test_stop_after_the_end_caches_the_plan_once() -> None:
    plan_cache = PlanCache()
    execution = start(plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED)
    execution.gather()
    execution.stop()
    execution.stop()
    assert len(plan_cache) == 1


def test_cached_plan_holds_no_object() -> None:
    class Watched(LocalBytes):
        """A source whose deletion can be observed."""

    plan_cache = PlanCache()
    source = Watched([NUMBERS])
    reference = weakref.ref(source)
    execution = plan(source, request("SELECT * FROM S3Object"), LIMITS, Meter(), NOW, None, plan_cache)
    execution.gather()
    execution.stop()
    del execution, source
    gc.collect()
    assert len(plan_cache) == 1
    assert reference() is None


def test_least_recently_used_plan_is_evicted() -> None:
    plan_cache = PlanCache(most=2)
    query = [f"SELECT {number} FROM S3Object" for number in range(3)]
    run(plan_cache, query[0], b"1\n")
    run(plan_cache, query[1], b"1\n")
    run(plan_cache, query[0], b"1\n")
    run(plan_cache, query[2], b"1\n")
    assert len(plan_cache) == 2
    kept = [start(plan_cache, expression, b"1\n") for expression in (query[0], query[2])]
    assert len(plan_cache) == 0
    for execution in kept:
        execution.stop()


def test_plan_has_a_limit_of_runs() -> None:
    plan_cache = PlanCache()
    for _ in range(MAX_RUNS - 1):
        run(plan_cache, "SELECT * FROM S3Object", b"1\n")
        assert len(plan_cache) == 1
    run(plan_cache, "SELECT * FROM S3Object", b"1\n")
    assert len(plan_cache) == 0


def test_small_object_may_have_a_large_result() -> None:
    data = b"%s\n" % (b"x" * 99) * 2000
    wide = " || ".join(["_1"] * 8)
    execution = start(PlanCache(), f"SELECT {wide} FROM S3Object", data)
    pieces = []
    while piece := execution.gather():
        pieces.append(piece)
    execution.stop()
    assert execution.has_ended
    assert b"".join(pieces) == b"%s\n" % (b"x" * 99 * 8) * 2000


def test_statement_is_parsed_once() -> None:
    query = "SELECT s.a FROM S3Object s ORDER BY s.a"
    assert read_statement(query) is read_statement(query)
    assert read_statement(query, ("t",)) is not read_statement(query)
    long = "SELECT s.a FROM S3Object s WHERE " + " OR ".join(["s.a = 1"] * 200)
    assert read_statement(long) is not read_statement(long)


def test_binding_does_not_change_the_statement() -> None:
    query = "SELECT s.a FROM S3Object s ORDER BY s.a"
    before = read_statement(query).order[0].node.parent
    run(PlanCache(), query, NUMBERS, HEADED)
    assert read_statement(query).order[0].node.parent is before


async def test_plan_is_cached_after_reading_all_batches() -> None:
    plan_cache = PlanCache()
    for _ in range(2):
        execution = await asyncio.to_thread(start, plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED)
        parts = []
        while (batch := await execution.next_batch()) is not None:
            parts.append(execution.writer.write(batch))
        execution.stop()
        assert b"".join(parts) == NUMBERS[4:]
        assert len(plan_cache) == 1


def test_discarded_plan_is_freed() -> None:
    plan_cache = PlanCache(most=1)
    run(plan_cache, "SELECT 1 FROM S3Object", b"1\n")
    [kept] = plan_cache._plans
    reference = weakref.ref(kept)
    del kept
    run(plan_cache, "SELECT 2 FROM S3Object", b"1\n")
    gc.collect()
    assert reference() is None
