from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.core.errors import StoreMismatch
from lakebed.meta.deployment import establish_deployment_id
from lakebed.streams.buckets.folder_ownership import ID_FILE, LOGS_FOLDER, SERVER_NAME_FILE, FolderOwnership
from tests.meta.stores import open_migrated_file


async def test_folder_gets_the_deployment_id_of_the_metadata_store(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    ownership = FolderOwnership(meta, tmp_path / "streams")
    await ownership.confirm_at_start()
    assert (tmp_path / "streams" / ID_FILE).read_text() == await establish_deployment_id(meta)
    await ownership.confirm_at_start()
    await ownership.confirm()
    await meta.close()


async def test_folder_of_another_deployment_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "streams"
    first, second = await open_migrated_file(tmp_path / "a.db"), await open_migrated_file(tmp_path / "b.db")
    await FolderOwnership(first, folder).confirm_at_start()
    other = FolderOwnership(second, folder)
    for check in (other.confirm_at_start, other.confirm):
        with pytest.raises(StoreMismatch) as refused:
            await check()
        assert await establish_deployment_id(first) in str(refused.value)
        assert await establish_deployment_id(second) in str(refused.value)
    await first.close()
    await second.close()


async def test_folder_that_lost_its_id_is_not_confirmed(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    ownership = FolderOwnership(meta, tmp_path / "streams")
    await ownership.confirm_at_start()
    (tmp_path / "streams" / ID_FILE).unlink()
    with pytest.raises(StoreMismatch):
        await ownership.confirm()
    await meta.close()


async def test_folder_without_id_must_have_logs_of_known_tables(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    (tmp_path / "streams" / LOGS_FOLDER / "7" / "all" / "0").mkdir(parents=True)
    ownership = FolderOwnership(meta, tmp_path / "streams")
    with pytest.raises(StoreMismatch, match="does not have"):
        await ownership.confirm_at_start()
    await meta.transact(
        lambda tx: tx.run(
            "INSERT INTO stream_dropped VALUES (?, 0, 'fluss', 'orders', '', 0)",
            7,
        )
    )
    await ownership.confirm_at_start()
    await ownership.confirm()
    await meta.close()


async def test_folder_without_id_is_recognized_by_its_server_name(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    folder = tmp_path / "streams"
    # Table 7 was dropped while another server led: the metadata store has no trace of it.
    (folder / LOGS_FOLDER / "7" / "all" / "0").mkdir(parents=True)
    (folder / SERVER_NAME_FILE).write_text("0123456789abcdef", encoding="ascii")
    ownership = FolderOwnership(meta, folder)
    with pytest.raises(StoreMismatch, match="does not have"):
        await ownership.confirm_at_start()
    await meta.transact(
        lambda tx: tx.run(
            "INSERT INTO stream_logs (table_id, partition_id, bucket, folder, epoch, tail_server, manifest,"
            " uploaded_end) VALUES (8, 0, 0, 'streams/log/db/t-8/0', 1, '0123456789abcdef', '', 0)"
        )
    )
    await ownership.confirm_at_start()
    await ownership.confirm()
    await meta.close()
