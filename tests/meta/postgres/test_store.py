from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import asyncpg
import pytest

from lakebed.core.errors import AlreadyExists, InvalidInput, InvalidSetting, StorageFull, Unavailable, WriteConflict
from lakebed.core.settings.streams import StreamsSettings
from lakebed.meta.migrations import (
    _CREATION_LOCK,
    _VERSIONS,
    Migration,
    in_dialect,
    migrate,
    product_migrations,
)
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.postgres import store as store_module
from lakebed.meta.postgres.store import PostgresStore
from lakebed.meta.seam import Transaction, Work
from tests.contracts.meta import MetaContract
from tests.fixtures.postgres import PostgresServer
from tests.meta.stores import until

pytestmark = pytest.mark.integration


class TestPostgresStore(MetaContract):
    @pytest.fixture
    def address(self, postgres_dsn: str) -> str:
        return postgres_dsn


@pytest.fixture
async def store(postgres_dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_dsn, connections=4, random=Random(7))
    yield store
    await store.close()


def _raising(code: str, attempts: list[int], *, times: int = 1000) -> Work[str]:
    """A work whose first `times` runs fail with the SQLSTATE `code`."""

    async def work(tx: Transaction) -> str:
        attempts.append(1)
        if len(attempts) <= times:
            await tx.run(f"DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END $$")
        return "done"

    return work


def _running(sql: str) -> Work[int]:
    async def work(tx: Transaction) -> int:
        return await tx.run(sql)

    return work


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_serialization_failure_is_retried(store: PostgresStore, code: str) -> None:
    attempts: list[int] = []
    assert await store.transact(_raising(code, attempts, times=3)) == "done"
    assert len(attempts) == 4


async def test_repeated_serialization_failures_are_a_write_conflict(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_ATTEMPTS", 4)
    attempts: list[int] = []
    with pytest.raises(WriteConflict, match="attempts=4"):
        await store.transact(_raising("40001", attempts))
    assert len(attempts) == 4


async def test_hidden_serialization_failure_is_retried(store: PostgresStore) -> None:
    attempts: list[int] = []
    inner = _raising("40001", attempts, times=1)

    async def work(tx: Transaction) -> str:
        try:
            return await inner(tx)
        except Exception as error:
            raise ValueError("something of my own") from error

    assert await store.transact(work) == "done"


async def test_duplicate_key_of_a_concurrent_insert_is_retried(store: PostgresStore) -> None:
    await store.transact(_running("CREATE TABLE kept (id TEXT PRIMARY KEY)"))
    # Raised here, because a real race ends with either of two errors.
    violation = "RAISE unique_violation USING CONSTRAINT = 'kept_pkey', DETAIL = 'Key (id)=(one) already exists.'"
    attempts: list[int] = []

    async def work(tx: Transaction) -> int:
        attempts.append(1)
        if len(attempts) == 1:
            await tx.run(f"DO $$ BEGIN {violation}; END $$")
        return len(await tx.rows("SELECT id FROM kept"))

    assert await store.transact(work) == 0
    assert len(attempts) == 2


async def test_duplicate_key_in_the_retry_already_exists(store: PostgresStore) -> None:
    await store.transact(_running("CREATE TABLE kept (id TEXT PRIMARY KEY)"))
    await store.transact(_running("INSERT INTO kept VALUES ('one')"))
    attempts: list[int] = []

    async def work(tx: Transaction) -> None:
        attempts.append(1)
        await tx.run("INSERT INTO kept VALUES ('one')")

    with pytest.raises(AlreadyExists, match="constraint=kept_pkey"):
        await store.transact(work)
    assert len(attempts) == 2


async def test_duplicate_of_another_key_is_retried_again(store: PostgresStore) -> None:
    await store.transact(_running("CREATE TABLE kept (id INTEGER PRIMARY KEY)"))
    await store.transact(_running("INSERT INTO kept VALUES (1), (2), (3)"))
    attempts: list[int] = []

    async def work(tx: Transaction) -> None:
        attempts.append(1)
        await tx.run("INSERT INTO kept VALUES (?)", len(attempts))

    await store.transact(work)
    assert [row[0] for row in await store.rows("SELECT id FROM kept ORDER BY id")] == [1, 2, 3, 4]


async def test_on_commit_callbacks_of_failed_attempts_are_dropped(store: PostgresStore) -> None:
    attempts: list[int] = []
    inner = _raising("40001", attempts, times=2)
    committed: list[int] = []

    async def work(tx: Transaction) -> None:
        number = len(attempts)
        tx.on_commit(lambda: committed.append(number))
        await inner(tx)

    await store.transact(work)
    assert committed == [2]


@pytest.mark.parametrize(
    ("code", "kind"), [("53100", StorageFull), ("53300", Unavailable), ("57P01", Unavailable), ("57014", Unavailable)]
)
async def test_transient_server_errors_are_unavailable(
    store: PostgresStore, code: str, kind: type[Unavailable]
) -> None:
    with pytest.raises(kind) as raised:
        await store.transact(_raising(code, []))
    assert not raised.value.undecided


async def test_statement_errors_are_not_translated(store: PostgresStore) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await store.row("SELECT id FROM nowhere")
    with pytest.raises(asyncpg.InterfaceError, match="expects 0 arguments"):
        await store.row("SELECT 1", 2)


async def test_unreachable_database_is_unavailable_and_hides_the_password(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        await PostgresStore.open(f"postgresql://user:hush@/db?host={tmp_path}", random=Random(7))
    assert "hush" not in str(raised.value)


async def test_synchronous_commit_off_is_rejected(postgres_dsn: str) -> None:
    with pytest.raises(InvalidSetting, match="synchronous_commit"):
        await PostgresStore.open(f"{postgres_dsn}&synchronous_commit=off", random=Random(7))


async def test_events_commit_in_the_order_of_their_numbers(store: PostgresStore, postgres_dsn: str) -> None:
    await migrate(store, product_migrations())
    outbox = Outbox(store)

    async def create(tx: Transaction) -> None:
        await tx.run("CREATE TABLE items (id BIGINT)")
        await tx.run("INSERT INTO items (id) VALUES (1)")

    async def append_and_stay(tx: Transaction) -> None:
        await outbox.append(tx, OutboxEvent("made", "first", b"", 0))
        await tx.run("UPDATE items SET id = 2")

    async def append(tx: Transaction) -> None:
        await outbox.append(tx, OutboxEvent("made", "second", b"", 0))

    async def is_waiting(what: str) -> bool:
        return await store.row("SELECT 1 FROM pg_locks WHERE locktype = ? AND NOT granted", what) is not None

    await store.transact(create)
    holder = await asyncpg.connect(postgres_dsn)
    async with asyncio.timeout(60):
        async with holder.transaction():
            await holder.execute("SELECT id FROM items FOR NO KEY UPDATE")
            first = asyncio.create_task(store.transact(append_and_stay))
            while not await is_waiting("transactionid"):
                assert not first.done()
            second = asyncio.create_task(store.transact(append))
            while not await is_waiting("advisory"):
                assert not second.done()
            assert await outbox.read_after(store, 0, 10) == []
        await first
        await second
    assert [entry.event.subject for entry in await outbox.read_after(store, 0, 10)] == ["first", "second"]
    await holder.close()


class Wire:
    """A proxy that closes the connection when the client sends COMMIT."""

    def __init__(self, server: Path, folder: Path, *, passes_commit_on: bool) -> None:
        self._server = server
        self._folder = folder
        self._passes_commit_on = passes_commit_on
        self._connections: list[asyncio.Task[None]] = []
        self.is_armed = False

    async def __aenter__(self) -> Wire:
        self._listener = await asyncio.start_unix_server(self._accept, self._folder / self._server.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        await asyncio.gather(*self._connections)

    def _accept(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        self._connections.append(asyncio.create_task(self._connect(client, answers)))

    async def _connect(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, requests = await asyncio.open_unix_connection(self._server)
        is_cut = False

        async def answer() -> None:
            while (got := await server.read(65536)) and not is_cut:
                answers.write(got)
            answers.close()

        answering = asyncio.create_task(answer())
        while not is_cut and (sent := await client.read(65536)):
            is_cut = self.is_armed and b"COMMIT" in sent
            if not is_cut or self._passes_commit_on:
                requests.write(sent)
        if is_cut and self._passes_commit_on:
            await answering  # the server commits, but its response is dropped
        answering.cancel()
        for end in (requests, answers):
            end.close()
            await end.wait_closed()


@pytest.mark.parametrize("happened", [True, False])
async def test_lost_commit_response_is_undecided(
    postgres_server: PostgresServer, postgres_dsn: str, store: PostgresStore, tmp_path: Path, happened: bool
) -> None:
    async def create(tx: Transaction) -> None:
        await tx.run("CREATE TABLE items (id BIGINT)")

    async def insert(tx: Transaction) -> None:
        await tx.run("INSERT INTO items (id) VALUES (?)", 1)

    await store.transact(create)
    with tempfile.TemporaryDirectory(prefix="wire-") as folder:
        dsn = f"postgresql://postgres@/postgres?host={folder}&search_path={postgres_dsn.rpartition('=')[2]}"
        async with Wire(postgres_server.socket, Path(folder), passes_commit_on=happened) as wire:
            remote = await PostgresStore.open(dsn, connections=1, random=Random(7))
            wire.is_armed = True
            with pytest.raises(Unavailable) as raised:
                await remote.transact(insert)
            assert raised.value.undecided
            wire.is_armed = False
            assert await remote.row("SELECT count(*) FROM items") == (int(happened),)
            await remote.transact(insert)
            await remote.close()
    assert await store.row("SELECT count(*) FROM items") == (1 + int(happened),)


async def test_commit_is_acknowledged_after_the_flush(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    may_flush = asyncio.Event()
    flush = store._flush.wait

    async def wait_and_flush() -> None:
        await may_flush.wait()
        await flush()

    async def create(tx: Transaction) -> None:
        await tx.run("CREATE TABLE items (id BIGINT)")

    async def is_visible() -> bool:
        return await store.row("SELECT 1 FROM pg_tables WHERE schemaname = current_schema()") is not None

    monkeypatch.setattr(store._flush, "wait", wait_and_flush)
    caller = asyncio.create_task(store.transact(create))
    async with asyncio.timeout(60):
        while not await is_visible():
            assert not caller.done()
    assert not caller.done()
    may_flush.set()
    await caller


async def test_flush_waits_for_the_disk_instead_of_the_commit(store: PostgresStore) -> None:
    async def work(tx: Transaction) -> tuple[object, ...] | None:
        return await tx.row("SELECT current_setting('synchronous_commit')")

    assert await store.transact(work) == ("off",)
    assert await store.row("SELECT current_setting('synchronous_commit')") == ("on",)
    before = await store.row("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    await store.sync()
    assert await store.row(
        "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn >= CAST(? AS numeric)", *(before or (None,))
    ) == (True,)


async def test_flushes_requested_during_a_flush_share_the_next() -> None:
    class Pool:
        def __init__(self) -> None:
            self.flushes = 0
            self.may_go_on = asyncio.Event()

        async def execute(self, _: str) -> None:
            self.flushes += 1
            await self.may_go_on.wait()

    pool = Pool()
    store = PostgresStore(None, pool, Random(7))
    first = asyncio.create_task(store.sync())
    await until(lambda: pool.flushes == 1)
    rest = [asyncio.create_task(store.sync()) for _ in range(5)]
    rest[0].cancel()
    pool.may_go_on.set()
    await asyncio.gather(first, *rest, return_exceptions=True)
    assert pool.flushes == 2


async def test_failed_flush_is_undecided(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise ConnectionResetError("gone")

    async def work(tx: Transaction) -> None:
        await tx.run("CREATE TABLE items (id BIGINT)")

    with monkeypatch.context() as patched:
        patched.setattr(store._flush, "wait", fail)
        with pytest.raises(Unavailable) as raised:
            await store.transact(work)
    assert raised.value.undecided


async def test_cancelled_caller_leaves_no_open_transaction(postgres_dsn: str) -> None:
    store = await PostgresStore.open(postgres_dsn, connections=1, random=Random(7))
    running = asyncio.Event()

    async def create(tx: Transaction) -> None:
        await tx.run("CREATE TABLE items (id BIGINT)")

    async def stay(tx: Transaction) -> None:
        await tx.run("INSERT INTO items (id) VALUES (?)", 1)
        running.set()
        await tx.run("SELECT pg_sleep(600)")

    await store.transact(create)
    caller = asyncio.create_task(store.transact(stay))
    await running.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await store.row("SELECT count(*) FROM items") == (0,)
    await store.close()


@pytest.mark.parametrize("has_heard", [False, True], ids=["at once", "once it has heard of it"])
async def test_paused_server_blocks_others_for_a_limited_time(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, has_heard: bool
) -> None:
    monkeypatch.setattr(store_module, "_IDLE_SECONDS", 1)
    paused = await PostgresStore.open(postgres_dsn, random=Random(1))
    other = await PostgresStore.open(postgres_dsn, random=Random(2))
    await other.transact(_running("CREATE TABLE held (n BIGINT)"))
    await other.transact(_running("INSERT INTO held VALUES (1)"))
    has_changed, goes_on = asyncio.Event(), asyncio.Event()

    async def work(tx: Transaction) -> None:
        await tx.run("UPDATE held SET n = 2")
        has_changed.set()
        await goes_on.wait()  # its process is stopped
        await tx.run("UPDATE held SET n = 3")

    pausing = asyncio.create_task(paused.transact(work))
    await has_changed.wait()
    assert await other.transact(_running("UPDATE held SET n = 4")) == 1
    if has_heard:
        await asyncio.sleep(0.3)
    goes_on.set()
    with pytest.raises(Unavailable):
        await pausing
    assert await paused.row("SELECT n FROM held") == (4,)
    await paused.close()
    await other.close()


def test_row_locks_of_a_paused_server_end_before_its_lease() -> None:
    assert StreamsSettings().lease > store_module._IDLE_SECONDS


async def test_cancelled_reader_leaves_no_state(postgres_dsn: str) -> None:
    store = await PostgresStore.open(postgres_dsn, connections=1, random=Random(7))

    async def work(tx: Transaction) -> int:
        row = await tx.row("SELECT 1")
        return 0 if row is None else row[0]

    try:
        for number in range(200):
            # A new statement, so that cancellation between preparation and execution is covered.
            reading = asyncio.create_task(store.row(f"SELECT {number}"))
            await asyncio.sleep(number / 200_000)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            assert await store.transact(work) == 1
    finally:
        await store.close()


async def test_unprivileged_role_can_flush(
    postgres_server: PostgresServer, postgres_dsn: str, store: PostgresStore
) -> None:
    role = f"role_{uuid.uuid4().hex}"
    postgres_server.execute(f"CREATE ROLE {role} LOGIN")
    plain = await PostgresStore.open(postgres_dsn.replace("//postgres@", f"//{role}@"), random=Random(7))
    assert await plain.row("SELECT current_user") == (role,)
    await plain.sync()
    await plain.close()


async def test_server_waits_for_another_that_creates_the_first_table(store: PostgresStore, postgres_dsn: str) -> None:
    step = Migration(1, "first", "CREATE TABLE one (id {bigint})")
    first = await asyncpg.connect(postgres_dsn)
    async with asyncio.timeout(60):
        async with first.transaction():
            await first.execute(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
            await first.execute(in_dialect(_VERSIONS, "postgres"))
            second = asyncio.create_task(migrate(store, [step]))
            while await store.row("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") is None:
                assert not second.done()
        assert await second == 1
    await first.close()


async def test_text_with_nul_is_invalid_input(store: PostgresStore) -> None:
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.row("SELECT 1 WHERE ? = 'a'", "a\0")
    with pytest.raises(InvalidInput):
        await store.rows("SELECT 1 WHERE ? = 'a'", "a\0")
    with pytest.raises(InvalidInput):
        await store.transact(lambda tx: tx.row("SELECT 1 WHERE ? = 'a'", "a\0"))
    assert await store.row("SELECT 1 WHERE ? = 'a'", "a") == (1,)
