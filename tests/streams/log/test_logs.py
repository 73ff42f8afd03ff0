"""Logs are found again by their buckets, and no two processes have them at once."""

from __future__ import annotations

from pathlib import Path

from lakebed.core.clock import ManualClock
from lakebed.streams.failures import Reason
from lakebed.streams.log.logs import Logs
from lakebed.streams.seam import Acks, TableBucket
from tests.contracts.stream_log import plain_batch, refused

BUCKETS = (TableBucket(1, None, 0), TableBucket(1, None, 1), TableBucket(2, 5, 0), TableBucket(2, 6, 0))


async def _ends(logs: Logs) -> list[int]:
    opened = [await logs.open(bucket) for bucket in BUCKETS]
    ends = [log.end_offset for log in opened]
    for log in opened:
        await log.close()
    return ends


async def test_every_bucket_has_a_log_of_its_own(tmp_path: Path) -> None:
    logs = Logs(str(tmp_path / "logs"), ManualClock())
    for number, bucket in enumerate(BUCKETS):
        log = await logs.open(bucket)
        await log.append(plain_batch(number + 1), Acks.ALL)
        await log.close()
    assert await _ends(logs) == [1, 2, 3, 4]
    logs.close()
    logs = Logs(str(tmp_path / "logs"), ManualClock())
    await logs.remove(2, 6)
    assert await _ends(logs) == [1, 2, 3, 0]
    await logs.remove(1, None)
    await logs.remove(1, None)
    assert await _ends(logs) == [0, 0, 3, 0]
    logs.close()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Logs(str(tmp_path), ManualClock())
    with refused(Reason.LOG_STORAGE):
        Logs(str(tmp_path), ManualClock())
    first.close()
    Logs(str(tmp_path), ManualClock()).close()
