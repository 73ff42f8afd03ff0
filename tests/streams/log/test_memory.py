"""The twin in memory keeps the contract of logs."""

from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.streams.log.memory import MemoryLog
from lakebed.streams.log.presentation import Presentation
from lakebed.streams.seam import Acks, BucketLog
from tests.contracts.stream_log import MAX_BATCH_BYTES, LogContract, OpenLog, offsets, plain_batch, read_all


class TestMemoryLog(LogContract):
    @pytest.fixture
    def open_log(self) -> OpenLog:
        async def open_one(clock: ManualClock, presentation: Presentation) -> BucketLog:
            return MemoryLog(clock, presentation=presentation, max_batch_bytes=MAX_BATCH_BYTES)

        return open_one


async def test_what_is_forgotten_cannot_be_read() -> None:
    log = MemoryLog()
    for _ in range(3):
        await log.append(plain_batch(10), Acks.ALL)
    log.forget(15)
    assert log.start_offset == 10
    assert offsets(await read_all(log)) == [(10, 20), (20, 30)]
