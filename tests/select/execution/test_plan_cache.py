"""Plans that are kept: that nothing of one query is left for the next, and what is kept at all."""

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


def started(
    plan_cache: PlanCache, expression: str, data: bytes, read: Input | None = None, write: Output | None = None
) -> Execution:
    return plan(LocalBytes([data]), request(expression, read, write), LIMITS, Meter(), NOW, None, plan_cache)


def ask(
    plan_cache: PlanCache, expression: str, data: bytes, read: Input | None = None, write: Output | None = None
) -> bytes:
    execution = started(plan_cache, expression, data, read, write)
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
    ("expression", "of_numbers", "of_others"),
    [
        ("SELECT s.b FROM S3Object s WHERE CAST(s.a AS INT) > 1", b"y\nz\n", b"x\ny\n"),
        ("SELECT * FROM S3Object LIMIT 1", b"1,x\n", b"7,x\n"),
        ("SELECT COUNT(*) FROM S3Object", b"3\n", b"2\n"),
        ("SELECT MIN(CAST(a AS INT)), MAX(CAST(a AS INT)), SUM(CAST(a AS INT)) FROM S3Object", b"1,3,6\n", b"7,8,15\n"),
        ("SELECT MAX(b), AVG(CAST(a AS FLOAT)) FROM S3Object WHERE a <> '2'", b"z,2\n", b"y,7.5\n"),
    ],
)
def test_a_plan_is_run_by_for_one_object_after_the_other(expression: str, of_numbers: bytes, of_others: bytes) -> None:
    plan_cache = PlanCache()
    for _ in range(3):
        assert ask(plan_cache, expression, NUMBERS, HEADED) == of_numbers
        assert len(plan_cache) == 1
        assert ask(plan_cache, expression, OTHERS, HEADED) == of_others
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
def test_what_holds_records_is_planned_anew_each_time(expression: str) -> None:
    plan_cache = PlanCache()
    first = ask(plan_cache, expression, NUMBERS, HEADED)
    assert ask(plan_cache, expression, OTHERS, HEADED) != first
    assert ask(plan_cache, expression, NUMBERS, HEADED) == first
    assert len(plan_cache) == 0


def test_options_that_change_the_meaning_do_not_share_a_plan() -> None:
    plan_cache = PlanCache()
    every = "SELECT * FROM S3Object"
    for _ in range(2):
        assert ask(plan_cache, every, NUMBERS, HEADED) == b"1,x\n2,y\n3,z\n"
        assert ask(plan_cache, every, NUMBERS, CsvInput()) == b"a,b\n1,x\n2,y\n3,z\n"
        assert ask(plan_cache, every, NUMBERS, CsvInput(header=HeaderUse.USE, field_delimiter=";")) == (
            b'"1,x"\n"2,y"\n"3,z"\n'
        )
        assert ask(plan_cache, every, NUMBERS, HEADED, CsvOutput(field_delimiter="|")) == b"1|x\n2|y\n3|z\n"
        assert ask(plan_cache, every, OTHERS, HEADED, JsonOutput()) == b'{"a":"7","b":"x"}\n{"a":"8","b":"y"}\n'


def test_the_same_words_about_other_columns_are_another_query() -> None:
    plan_cache = PlanCache()
    asked = "SELECT s.b FROM S3Object s"
    for _ in range(2):
        assert ask(plan_cache, asked, b"a,b\n1,2\n", HEADED) == b"2\n"
        assert ask(plan_cache, asked, b"b,a\n1,2\n", HEADED) == b"1\n"
        assert ask(plan_cache, asked, b"a,b,c\n1,2,3\n", HEADED) == b"2\n"
        assert ask(plan_cache, asked, b'{"b":1}\n', LINES) == b"1\n"
        assert ask(plan_cache, asked, b'{"b":"t"}\n', LINES) == b"t\n"


def test_row_groups_are_left_out_by_the_condition_of_a_kept_plan_too() -> None:
    data, plan_cache = stored(), PlanCache()

    def scanned(expression: str) -> int:
        meter = Meter()
        asked = request(expression, ParquetInput())
        execution = plan(LocalBytes([data]), asked, LIMITS, meter, NOW, None, plan_cache)
        while execution.gather():
            pass
        execution.stop()
        return meter.counts.scanned

    first, again = (scanned("SELECT name FROM S3Object WHERE id = 5") for _ in range(2))
    assert len(plan_cache) == 1
    assert first == again < scanned("SELECT name FROM S3Object WHERE id + 0 = 5")


def test_a_query_that_fails_leaves_nothing_behind() -> None:
    plan_cache = PlanCache()
    asked = "SELECT CAST(a AS INT) FROM S3Object"
    assert ask(plan_cache, asked, NUMBERS, HEADED) == b"1\n2\n3\n"
    with pytest.raises(SelectError) as raised:
        ask(plan_cache, asked, b"a,b\nno,x\n", HEADED)
    assert raised.value.code == "CastFailed"
    assert len(plan_cache) == 0
    assert ask(plan_cache, asked, NUMBERS, HEADED) == b"1\n2\n3\n"
    with pytest.raises(SelectError) as raised:
        ask(plan_cache, asked, b"a,b\n1,x,y\n", HEADED)
    assert raised.value.code == "CSVParsingError"
    assert ask(plan_cache, asked, OTHERS, HEADED) == b"7\n8\n"


def test_what_is_wrong_with_a_constant_is_told_in_our_words() -> None:
    plan_cache = PlanCache()
    for _ in range(2):
        with pytest.raises(SelectError) as raised:
            ask(plan_cache, "SELECT TO_TIMESTAMP('nonsense') FROM S3Object", b"1\n")
        assert raised.value.code not in ("", "InternalError")
    assert len(plan_cache) == 0


def test_a_query_that_is_stopped_does_not_give_its_plan_back() -> None:
    plan_cache = PlanCache()
    started(plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED).stop()
    assert len(plan_cache) == 0


def test_queries_at_the_same_time_have_a_plan_each() -> None:
    plan_cache = PlanCache()
    asked = "SELECT s.a FROM S3Object s"
    first, second = (started(plan_cache, asked, data, HEADED) for data in (NUMBERS, OTHERS))
    assert second.gather() == b"7\n8\n"
    assert first.gather() == b"1\n2\n3\n"
    first.stop()
    second.stop()
    assert len(plan_cache) == 2

    objects = [b"a\n" + b"%d\n" % number * 50 for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda data: ask(plan_cache, asked, data, HEADED), objects))
    assert answers == [data[2:] for data in objects]


def test_a_stop_after_the_end_gives_the_plan_back_once() -> None:
    plan_cache = PlanCache()
    execution = started(plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED)
    execution.gather()
    execution.stop()
    execution.stop()
    assert len(plan_cache) == 1


def test_a_plan_on_the_shelf_holds_no_object() -> None:
    class Watched(LocalBytes):
        """One that can be seen to go."""

    plan_cache = PlanCache()
    source = Watched([NUMBERS])
    gone = weakref.ref(source)
    execution = plan(source, request("SELECT * FROM S3Object"), LIMITS, Meter(), NOW, None, plan_cache)
    execution.gather()
    execution.stop()
    del execution, source
    gc.collect()
    assert len(plan_cache) == 1
    assert gone() is None


def test_those_go_first_that_were_not_asked_for_the_longest() -> None:
    plan_cache = PlanCache(most=2)
    asked = [f"SELECT {number} FROM S3Object" for number in range(3)]
    ask(plan_cache, asked[0], b"1\n")
    ask(plan_cache, asked[1], b"1\n")
    ask(plan_cache, asked[0], b"1\n")
    ask(plan_cache, asked[2], b"1\n")
    assert len(plan_cache) == 2
    kept = [started(plan_cache, expression, b"1\n") for expression in (asked[0], asked[2])]
    assert len(plan_cache) == 0
    for execution in kept:
        execution.stop()


def test_a_plan_is_not_run_by_for_ever() -> None:
    plan_cache = PlanCache()
    for _ in range(MAX_RUNS - 1):
        ask(plan_cache, "SELECT * FROM S3Object", b"1\n")
        assert len(plan_cache) == 1
    ask(plan_cache, "SELECT * FROM S3Object", b"1\n")
    assert len(plan_cache) == 0


def test_a_small_object_may_become_a_large_answer() -> None:
    data = b"%s\n" % (b"x" * 99) * 2000
    wide = " || ".join(["_1"] * 8)
    execution = started(PlanCache(), f"SELECT {wide} FROM S3Object", data)
    pieces = []
    while piece := execution.gather():
        pieces.append(piece)
    execution.stop()
    assert execution.has_ended
    assert b"".join(pieces) == b"%s\n" % (b"x" * 99 * 8) * 2000


def test_a_statement_is_taken_apart_once() -> None:
    asked = "SELECT s.a FROM S3Object s ORDER BY s.a"
    assert read_statement(asked) is read_statement(asked)
    assert read_statement(asked, ("t",)) is not read_statement(asked)
    long = "SELECT s.a FROM S3Object s WHERE " + " OR ".join(["s.a = 1"] * 200)
    assert read_statement(long) is not read_statement(long)


def test_binding_does_not_change_a_statement() -> None:
    asked = "SELECT s.a FROM S3Object s ORDER BY s.a"
    before = read_statement(asked).order[0].node.parent
    ask(PlanCache(), asked, NUMBERS, HEADED)
    assert read_statement(asked).order[0].node.parent is before


async def test_batches_that_are_awaited_give_the_plan_back_as_well() -> None:
    plan_cache = PlanCache()
    for _ in range(2):
        execution = await asyncio.to_thread(started, plan_cache, "SELECT * FROM S3Object", NUMBERS, HEADED)
        parts = []
        while (batch := await execution.next_batch()) is not None:
            parts.append(execution.writer.write(batch))
        execution.stop()
        assert b"".join(parts) == NUMBERS[4:]
        assert len(plan_cache) == 1


def test_a_plan_that_is_thrown_away_is_gone() -> None:
    plan_cache = PlanCache(most=1)
    ask(plan_cache, "SELECT 1 FROM S3Object", b"1\n")
    [kept] = plan_cache._plans
    gone = weakref.ref(kept)
    del kept
    ask(plan_cache, "SELECT 2 FROM S3Object", b"1\n")
    gc.collect()
    assert gone() is None
