from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakebed.meta.sqlite.write_lock import WriteTurn
from tests.meta.stores import until


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


def test_one_at_a_time_has_the_turn(database: Path) -> None:
    first, second = WriteTurn(database), WriteTurn(database)
    assert first.take_nowait()
    assert not second.take_nowait()
    first.give_back()
    assert second.take_nowait()
    first.close()
    second.close()


def test_closing_gives_the_turn_back(database: Path) -> None:
    first, second = WriteTurn(database), WriteTurn(database)
    first.take()
    first.close()
    assert second.take_nowait()
    second.close()


async def test_the_one_who_gave_the_turn_back_cannot_snatch_it_from_the_one_who_waits(database: Path) -> None:
    holder, waiter, observer = WriteTurn(database), WriteTurn(database), WriteTurn(database)
    for _ in range(50):
        holder.take()
        taken = threading.Event()

        def wait(taken: threading.Event = taken) -> None:
            waiter.take()
            taken.set()

        thread = threading.Thread(target=wait)
        thread.start()
        await until(observer.somebody_waits)
        holder.give_back()
        assert not holder.take_nowait()
        thread.join()
        assert taken.is_set()
        waiter.give_back()
    for turn in (holder, waiter, observer):
        turn.close()
