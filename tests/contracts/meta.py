"""The contract of the metadata store, for every MetaStore.

Subclass `MetaContract` and define a fixture `address` with an empty store, in the form of
`tests.meta.stores.open_store`. Some tests open it a second time, or from other processes.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

import pytest

from lakebed.core.errors import AlreadyExists, Unavailable
from lakebed.meta.migrations import in_dialect
from lakebed.meta.seam import MetaStore, Transaction
from tests.meta.stores import open_store
from tests.meta.writer_process import TABLES, add_one

INT64 = (-(2**63), -1, 0, 1, 2**31, 2**53 + 1, 2**63 - 1)

TEXTS = (
    "",
    "a",
    "B",
    "b",
    "Z",
    "z",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "日本",
    "\uffff",
    "\U0001f600",
    "a b",
    "a-b",
    "a/b",
    "a0",
    "A",
)

BODIES = (b"", b"\x00", bytes(range(256)), b"\xff" * 1_000_000, "naïve".encode())


class WorkFailed(Exception):
    """An error raised by the work of a transaction."""


class MetaContract:
    """Guarantees of every metadata store."""

    @pytest.fixture
    def address(self) -> str:
        """The address of an empty store, defined by subclasses."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, address: str) -> AsyncIterator[MetaStore]:
        """An open store with a table of items and a counter."""
        store = await open_store(address)

        async def work(tx: Transaction) -> None:
            for statement in (
                "CREATE TABLE items (id BIGINT PRIMARY KEY, name {text}, body {blob}, size BIGINT)",
                "CREATE UNIQUE INDEX items_by_name ON items (name)",
                *TABLES,
            ):
                await tx.run(in_dialect(statement, store.dialect))

        await store.transact(work)
        yield store
        await store.close()

    # Values

    async def test_integers_round_trip(self, store: MetaStore) -> None:
        await _insert_all(store, [(number, None, None, value) for number, value in enumerate(INT64)])
        assert [size for (size,) in await store.rows("SELECT size FROM items ORDER BY id")] == list(INT64)
        assert await store.rows("SELECT size FROM items WHERE size > ? ORDER BY size", 2**53) == [
            (2**53 + 1,),
            (2**63 - 1,),
        ]

    async def test_bytes_round_trip(self, store: MetaStore) -> None:
        await _insert_all(store, [(number, None, body, None) for number, body in enumerate(BODIES)])
        assert [body for (body,) in await store.rows("SELECT body FROM items ORDER BY id")] == list(BODIES)

    async def test_text_round_trips_and_stays_distinct(self, store: MetaStore) -> None:
        await _insert_all(store, [(number, text, None, None) for number, text in enumerate(TEXTS)])
        assert [name for (name,) in await store.rows("SELECT name FROM items ORDER BY id")] == list(TEXTS)

    async def test_text_compares_by_its_bytes(self, store: MetaStore) -> None:
        await _insert_all(store, [(number, text, None, None) for number, text in enumerate(TEXTS)])
        in_order = sorted(TEXTS, key=str.encode)
        assert [name for (name,) in await store.rows("SELECT name FROM items ORDER BY name")] == in_order
        for bound in TEXTS:
            found = await store.rows("SELECT name FROM items WHERE name > ? ORDER BY name", bound)
            assert [name for (name,) in found] == [text for text in in_order if text.encode() > bound.encode()]

    async def test_null_is_none_and_none_is_null(self, store: MetaStore) -> None:
        await _insert_all(store, [(1, None, None, None)])
        assert await store.row("SELECT name, body, size FROM items WHERE name IS NULL") == (None, None, None)

    async def test_sums_and_counts_are_integers(self, store: MetaStore) -> None:
        await _insert_all(store, [(number, None, None, 2**40) for number in range(3)])
        found = await store.row("SELECT count(*), sum(size), max(size) FROM items")
        assert found == (3, 3 * 2**40, 2**40)
        assert all(isinstance(value, int) for value in found)

    # Statements

    async def test_row_returns_the_first_row_or_none(self, store: MetaStore) -> None:
        assert await store.row("SELECT id FROM items") is None
        await _insert_all(store, [(number, None, None, None) for number in range(5)])
        assert await store.row("SELECT id FROM items ORDER BY id DESC") == (4,)
        assert await store.rows("SELECT id FROM items WHERE id > ?", 10) == []

    async def test_run_returns_the_number_of_affected_rows(self, store: MetaStore) -> None:
        async def work(tx: Transaction) -> list[int]:
            return [
                await tx.run("INSERT INTO items (id, size) VALUES (?, ?), (?, ?)", 1, 1, 2, 2),
                await tx.run("CREATE TABLE more (id BIGINT)"),
                await tx.run("UPDATE items SET size = size + 1"),
                await tx.run("UPDATE items SET size = 0 WHERE id = ?", 9),
                await tx.run("INSERT INTO items (id) VALUES (?) ON CONFLICT (id) DO NOTHING", 1),
                await tx.run("DELETE FROM items WHERE id = ?", 1),
            ]

        assert await store.transact(work) == [2, 0, 2, 0, 0, 1]

    async def test_change_may_return_rows(self, store: MetaStore) -> None:
        async def work(tx: Transaction) -> list[tuple[int, ...]]:
            first = await tx.row("INSERT INTO items (id, size) VALUES (?, ?), (?, ?) RETURNING id", 1, 10, 2, 20)
            assert first == (1,)
            return await tx.rows("UPDATE items SET size = size + 1 RETURNING id, size")

        assert sorted(await store.transact(work)) == [(1, 11), (2, 21)]

    async def test_question_marks_in_literals_are_not_parameters(self, store: MetaStore) -> None:
        await _insert_all(store, [(1, "what?", None, None)])
        found = await store.row("SELECT id AS \"a?\", 'it''s ?' FROM items WHERE name = 'what?' AND id = ? -- why?", 1)
        assert found == (1, "it's ?")

    # Transactions

    async def test_transaction_sees_its_changes_and_returns_the_result_of_its_work(self, store: MetaStore) -> None:
        async def work(tx: Transaction) -> str:
            await tx.run("INSERT INTO items (id, name) VALUES (?, ?)", 1, "mine")
            found = await tx.row("SELECT name FROM items WHERE id = ?", 1)
            assert found is not None
            return str(found[0])

        assert await store.transact(work) == "mine"
        assert await store.row("SELECT name FROM items WHERE id = ?", 1) == ("mine",)

    async def test_error_of_the_work_is_raised_and_rolls_back(self, store: MetaStore) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run("INSERT INTO items (id) VALUES (?)", 1)
            raise WorkFailed

        with pytest.raises(WorkFailed):
            await store.transact(work)
        assert await store.rows("SELECT id FROM items") == []

    async def test_failing_transactions_do_not_affect_concurrent_ones(self, store: MetaStore) -> None:
        def insert(number: int) -> asyncio.Task[int]:
            async def work(tx: Transaction) -> int:
                await tx.run("INSERT INTO items (id, size) VALUES (?, ?)", number, number)
                if number % 3 == 0:
                    raise WorkFailed
                return number

            return asyncio.create_task(store.transact(work))

        results = await asyncio.gather(*map(insert, range(30)), return_exceptions=True)
        for number, result in enumerate(results):
            assert isinstance(result, WorkFailed) if number % 3 == 0 else result == number
        survivors = [(number,) for number in range(30) if number % 3]
        assert await store.rows("SELECT id FROM items ORDER BY id") == survivors

    async def test_duplicate_unique_key_raises_already_exists(self, store: MetaStore) -> None:
        await _insert_all(store, [(1, "taken", None, None)])
        for id_, name in ((1, "free"), (2, "taken")):
            with pytest.raises(AlreadyExists):
                await _insert_all(store, [(id_, name, None, None)])

    async def test_failed_statement_rolls_back_its_transaction_even_if_the_work_continues(
        self, store: MetaStore
    ) -> None:
        await _insert_all(store, [(1, "first", None, None)])

        async def work(tx: Transaction) -> None:
            await tx.run("INSERT INTO items (id) VALUES (?)", 2)
            with pytest.raises(AlreadyExists):
                await tx.run("INSERT INTO items (id) VALUES (?)", 1)
            with pytest.raises(AlreadyExists):
                await tx.rows("SELECT id FROM items")

        concurrent = asyncio.create_task(_insert_all(store, [(3, "concurrent", None, None)]))
        with pytest.raises(AlreadyExists):
            await store.transact(work)
        await concurrent
        assert await store.rows("SELECT id FROM items ORDER BY id") == [(1,), (3,)]

    async def test_transaction_cannot_be_used_after_its_end(self, store: MetaStore) -> None:
        kept: list[Transaction] = []

        async def work(tx: Transaction) -> None:
            kept.append(tx)

        await store.transact(work)
        with pytest.raises(RuntimeError, match="after its end"):
            await kept[0].run("INSERT INTO items (id) VALUES (?)", 1)

    async def test_on_commit_is_called_after_a_commit_and_never_after_a_rollback(self, store: MetaStore) -> None:
        output: list[str] = []

        async def good(tx: Transaction) -> None:
            await tx.run("INSERT INTO items (id) VALUES (?)", 1)
            tx.on_commit(lambda: output.append("good"))
            assert not output

        async def bad(tx: Transaction) -> None:
            tx.on_commit(lambda: output.append("bad"))
            raise WorkFailed

        async def doomed(tx: Transaction) -> None:
            tx.on_commit(lambda: output.append("doomed"))
            await tx.run("INSERT INTO items (id) VALUES (?)", 1)

        await store.transact(good)
        assert output == ["good"]
        for work, error in ((bad, WorkFailed), (doomed, AlreadyExists)):
            with pytest.raises(error):
                await store.transact(work)
        assert output == ["good"]

    async def test_cancelled_caller_leaves_the_store_usable(self, store: MetaStore) -> None:
        caller = asyncio.create_task(_insert_all(store, [(1, "cancelled", None, None)]))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await _insert_all(store, [(2, "after", None, None)])
        assert await store.row("SELECT name FROM items WHERE id = 2") == ("after",)

    # Isolation

    async def test_concurrent_increments_lose_nothing(self, store: MetaStore) -> None:
        await asyncio.gather(*(add_one(store, f"task-{number}") for number in range(40)))
        await _assert_total(store, 40)

    async def test_write_skew_is_prevented(self, store: MetaStore) -> None:
        rounds = 15
        await _insert_all(store, [(number, None, None, 1) for number in range(2 * rounds)])

        async def leave_on_call(pair: int, number: int) -> None:
            async def work(tx: Transaction) -> None:
                on_call = await tx.row("SELECT sum(size) FROM items WHERE id IN (?, ?)", 2 * pair, 2 * pair + 1)
                if on_call == (2,):
                    await tx.run("UPDATE items SET size = 0 WHERE id = ?", 2 * pair + number)

            await store.transact(work)

        await asyncio.gather(*(leave_on_call(pair, number) for pair in range(rounds) for number in (0, 1)))
        remaining = await store.rows("SELECT id / 2, sum(size) FROM items GROUP BY id / 2 ORDER BY id / 2")
        assert remaining == [(pair, 1) for pair in range(rounds)]

    async def test_readers_never_see_a_partial_transaction(self, store: MetaStore) -> None:
        await _insert_all(store, [(1, None, None, 50), (2, None, None, 50)])

        async def move(amount: int) -> None:
            async def work(tx: Transaction) -> None:
                await tx.run("UPDATE items SET size = size - ? WHERE id = 1", amount)
                await tx.run("UPDATE items SET size = size + ? WHERE id = 2", amount)

            await store.transact(work)

        async def look() -> None:
            for _ in range(20):
                assert await store.row("SELECT sum(size) FROM items") == (100,)
                await asyncio.sleep(0)

        await asyncio.gather(*(move(amount) for amount in range(20)), look(), look())

    async def test_second_store_sees_committed_changes(self, store: MetaStore, address: str) -> None:
        other = await open_store(address)
        try:
            await _insert_all(store, [(1, "one", None, None)])
            assert await other.row("SELECT name FROM items WHERE id = 1") == ("one",)
            await _insert_all(other, [(2, "two", None, None)])
            assert await store.row("SELECT name FROM items WHERE id = 2") == ("two",)
        finally:
            await other.close()

    async def test_increments_through_two_stores_lose_nothing(self, store: MetaStore, address: str) -> None:
        other = await open_store(address)
        try:
            await asyncio.gather(*(add_one((store, other)[number % 2], f"task-{number}") for number in range(30)))
        finally:
            await other.close()
        await _assert_total(store, 30)

    # Processes

    @pytest.mark.slow
    async def test_increments_of_several_processes_lose_nothing(
        self, store: MetaStore, address: str, pytestconfig: pytest.Config
    ) -> None:
        writers = [await _start_writer(pytestconfig, address, f"w{number}", 4, 10) for number in range(3)]
        await asyncio.gather(*(add_one(store, f"here-{number}") for number in range(10)))
        for writer in writers:
            output, _ = await writer.communicate()
            assert writer.returncode == 0
            assert len(output.splitlines()) == 40
        await _assert_total(store, 130)

    @pytest.mark.slow
    async def test_acknowledged_changes_survive_the_death_of_the_writer(
        self, store: MetaStore, address: str, pytestconfig: pytest.Config
    ) -> None:
        writer = await _start_writer(pytestconfig, address, "w", 4, 100_000)
        assert writer.stdout is not None
        output = [await writer.stdout.readline() for _ in range(200)]
        writer.kill()
        output += (await writer.stdout.read()).splitlines(keepends=True)
        await writer.wait()
        acknowledged = {line.decode().strip() for line in output if line.endswith(b"\n")}
        assert len(acknowledged) >= 200
        # The writer died while it held a lock or a transaction; other writers must be able to continue.
        await add_one(store, "after")
        kept = {addition for (addition,) in await store.rows("SELECT id FROM additions")}
        assert acknowledged <= kept
        await _assert_total(store, len(kept))

    # Life

    async def test_sync_returns_with_and_without_running_transactions(self, store: MetaStore) -> None:
        await store.sync()
        await asyncio.gather(_insert_all(store, [(1, None, None, None)]), store.sync(), store.sync())

    async def test_close_finishes_running_transactions_and_rejects_later_ones(
        self, store: MetaStore, address: str
    ) -> None:
        other = await open_store(address)
        caller = asyncio.create_task(_insert_all(other, [(1, "last", None, None)]))
        await asyncio.sleep(0)
        await other.close()
        await caller
        await other.close()
        assert await store.row("SELECT name FROM items") == ("last",)
        with pytest.raises(Unavailable):
            await _insert_all(other, [(2, "late", None, None)])
        with pytest.raises(Unavailable):
            await other.row("SELECT name FROM items")


async def _insert_all(store: MetaStore, items: list[tuple[int, str | None, bytes | None, int | None]]) -> None:
    async def work(tx: Transaction) -> None:
        for item in items:
            await tx.run("INSERT INTO items (id, name, body, size) VALUES (?, ?, ?, ?)", *item)

    await store.transact(work)


async def _assert_total(store: MetaStore, expected: int) -> None:
    assert await store.row("SELECT total FROM counter") == (expected,)
    assert await store.row("SELECT count(*) FROM additions") == (expected,)


async def _start_writer(config: pytest.Config, address: str, worker: str, tasks: int, additions: int) -> Process:
    arguments = ("-m", "tests.meta.writer_process", address, worker, str(tasks), str(additions))
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=config.rootpath, stdout=PIPE)
