"""Logs are found by their buckets, and one process at a time owns the folder."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import StoreMismatch
from lakebed.fluss.errors import ErrorCode
from lakebed.streams.log.local.logs import Logs
from lakebed.streams.seam import Acks, TableBucket
from tests.contracts.stream_log import plain_batch, refused

BUCKETS = (TableBucket(1, None, 0), TableBucket(1, None, 1), TableBucket(2, 5, 0), TableBucket(2, 6, 0))


async def _ends(logs: Logs) -> list[int]:
    opened = [await logs.open(bucket) for bucket in BUCKETS]
    ends = [log.end_offset for log in opened]
    for log in opened:
        await log.close()
    return ends


async def test_every_bucket_has_a_separate_log(tmp_path: Path) -> None:
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


async def test_logs_in_a_folder_of_another_deployment_stay(tmp_path: Path) -> None:
    async def refuse() -> None:
        raise StoreMismatch("another deployment's")

    logs = Logs(str(tmp_path / "logs"), ManualClock(), confirm_ownership=refuse)
    for number, bucket in enumerate(BUCKETS):
        log = await logs.open(bucket)
        await log.append(plain_batch(number + 1), Acks.ALL)
        await log.close()
    with pytest.raises(StoreMismatch):
        await logs.remove(1, None)
    with pytest.raises(StoreMismatch):
        await logs.discard(BUCKETS[2])
    assert await _ends(logs) == [1, 2, 3, 4]
    logs.close()


async def test_removal_is_logged_with_count_bytes_and_first_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(str(tmp_path / "logs"), ManualClock())
    log = await logs.open(BUCKETS[0])
    await log.append(plain_batch(1), Acks.ALL)
    await log.close()
    files = {path: path.stat().st_size for path in Path(logs.folder_of(BUCKETS[0])).iterdir()}
    with caplog.at_level(logging.INFO, "lakebed.streams"):
        await logs.discard(BUCKETS[0])
        await logs.discard(BUCKETS[0])
    (record,) = caplog.records
    assert record.message == "stale local log deleted"
    fields = vars(record)
    assert (fields["count"], fields["bytes"]) == (len(files), sum(files.values()))
    assert set(fields["first_files"]) <= set(map(str, files))
    logs.close()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Logs(str(tmp_path), ManualClock())
    with refused(ErrorCode.LOG_STORAGE):
        Logs(str(tmp_path), ManualClock())
    first.close()
    Logs(str(tmp_path), ManualClock()).close()
