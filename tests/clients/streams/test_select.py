"""`lakebed select stream://…` on a running server: stream tables without and with tiered records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakebed.cli import main
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.streams.serving import StreamServer, make_table
from tests.clients.streams.tiering import tier_by_hand

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Ask = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture(scope="module")
def lake(streams: StreamServer) -> Lake:
    return new_lake(streams.server)


@pytest.fixture
def ask(streams: StreamServer, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command as root; exit status, stdout and stderr."""
    monkeypatch.setenv("LAKEBED_ENDPOINT", streams.server.endpoint)
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", streams.server.access_key)
    monkeypatch.setenv("LAKEBED_SECRET_KEY", streams.server.secret_key)
    monkeypatch.setenv("LAKEBED_STREAMS", streams.address)
    monkeypatch.setenv("LAKEBED_TABLE_WAREHOUSE", lake.warehouse)

    async def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = await asyncio.to_thread(main, ["select", *words, "--output", "csv"])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


async def test_select_reads_tiered_and_untiered_records(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any, ask: Ask
) -> None:
    table = await make_table(connection, table_path, bucket_count=2)
    source = f"stream://{table_path.database_name}.t"
    assert await ask(source, "SELECT COUNT(*) FROM t") == (0, "0\n", "")
    writer = table.new_append().create_writer()

    async def append(*numbers: int) -> None:
        for number in numbers:
            writer.append({"id": number, "name": f"n{number}", "score": number / 2})
        await writer.flush()

    await append(*range(10))
    assert await ask(source, "SELECT COUNT(*), SUM(id) FROM t") == (0, "10,45\n", "")
    tier_by_hand(streams, lake, table_path)
    assert await ask(source, "SELECT COUNT(*), SUM(id) FROM t") == (0, "10,45\n", "")
    await append(*range(10, 15))
    assert await ask(source, "SELECT COUNT(*), SUM(id) FROM t") == (0, "15,105\n", "")
    named = f"SELECT name, score FROM {table_path.database_name}.t WHERE name >= 'n8' ORDER BY id"
    assert (await ask(source, named))[1] == "n8,4\nn9,4.5\n"
    assert (await ask(source, "SELECT * FROM S3Object s WHERE s.id = 12"))[1] == "12,n12,6\n"


async def test_select_returns_the_current_rows_of_a_kv_table(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any, ask: Ask
) -> None:
    table = await make_table(connection, table_path, primary_key=["id"], bucket_count=2)
    source, all_names = f"stream://{table_path.database_name}.t", "SELECT id, name FROM t ORDER BY id"
    writer = table.new_upsert().create_writer()

    async def put(**names: str | None) -> None:
        for key, name in names.items():
            number = int(key.removeprefix("k"))
            if name is None:
                writer.delete({"id": number})
            else:
                writer.upsert({"id": number, "name": name, "score": 0.0})
        await writer.flush()

    await put(k1="a", k2="b", k3="c", k4="d")
    await put(k1="A", k4=None)
    assert await ask(source, all_names) == (0, "1,A\n2,b\n3,c\n", "")
    tier_by_hand(streams, lake, table_path)
    assert await ask(source, all_names) == (0, "1,A\n2,b\n3,c\n", "")
    await put(k2=None, k3="C", k5="e")
    await put(k4="again", k3="CC")
    assert await ask(source, all_names) == (0, "1,A\n3,CC\n4,again\n5,e\n", "")
    assert await ask(source, "SELECT COUNT(*) FROM t") == (0, "4\n", "")
    # These rows of the lake are outdated, although they match.
    assert await ask(source, "SELECT COUNT(*) FROM t WHERE name = 'b'") == (0, "0\n", "")
    assert await ask(source, "SELECT score FROM t WHERE name = 'CC'") == (0, "0\n", "")


async def test_select_errors_are_one_line(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await make_table(connection, table_path)
    source, everything = f"stream://{table_path.database_name}.t", "SELECT * FROM t"
    writer = table.new_append().create_writer()
    writer.append({"id": 1, "name": "n", "score": 0.0})
    await writer.flush()
    tier_by_hand(streams, lake, table_path)
    for words, message in (
        (("stream://t", everything), "stream://DATABASE.TABLE"),
        ((f"{source}x", "SELECT * FROM S3Object"), "no such table"),
        ((source, everything, "--as-of", "2026-01-01"), "does not apply to"),
        ((source, everything, "--range", "0-1"), "does not apply to"),
        (("s3://b/k.csv", everything, "--lake-table", "a.b"), "does not apply to"),
        ((source, everything, "--lake-table", "no.such"), "no such table"),
        ((source, "SELECT absent FROM t"), "no such column"),
    ):
        status, out, err = await ask(*words)
        assert (status, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1
    monkeypatch.delenv("LAKEBED_TABLE_WAREHOUSE")
    assert "name its warehouse" in (await ask(source, everything))[2]
    monkeypatch.setenv("LAKEBED_SECRET_KEY", "another")
    status, out, err = await ask(source, everything)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
