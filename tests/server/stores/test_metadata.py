from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidSetting, MissingExtra, Unavailable
from lakebed.core.secrets import Secret
from lakebed.core.settings import MetaSettings, ServerSettings, Settings
from lakebed.governance import MasterKeys
from lakebed.server.stores.metadata import SQLITE_FILE, open_metadata
from tests.fixtures.descriptors import open_descriptors, opened_since

KEYS = MasterKeys({"one": b"1" * 32}, active="one")


async def test_default_store_is_a_file_in_the_data_folder_with_the_schema(tmp_path: Path) -> None:
    store = await open_metadata(Settings(server=ServerSettings(data=tmp_path / "data")), KEYS)
    try:
        assert store.dialect == "sqlite"
        assert (tmp_path / "data" / SQLITE_FILE).exists()
        assert await store.row("SELECT count(*) FROM principals") == (0,)
    finally:
        await store.close()


async def test_data_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"cannot create the data folder\. path=.*file"):
        await open_metadata(Settings(server=ServerSettings(data=tmp_path / "file" / "data")), KEYS)


async def test_absent_database_is_unavailable_and_its_password_is_hidden() -> None:
    settings = Settings(meta=MetaSettings(url=Secret("postgresql://lake:sesame@127.0.0.1:1/lake")))
    with pytest.raises(Unavailable) as caught:
        await open_metadata(settings, KEYS)
    assert "sesame" not in str(caught.value)


async def test_missing_library_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lakebed\[postgres\]'"):
        await open_metadata(Settings(meta=MetaSettings(url=Secret("postgresql://db/lake"))), KEYS)


async def test_store_encrypted_with_another_key_is_closed(tmp_path: Path) -> None:
    settings = Settings(server=ServerSettings(data=tmp_path / "data"))
    await (await open_metadata(settings, KEYS)).close()
    before = open_descriptors()
    with pytest.raises(InvalidSetting, match="missing=one"):
        await open_metadata(settings, MasterKeys({"two": b"2" * 32}, active="two"))
    assert not opened_since(before)
    await (await open_metadata(settings, KEYS)).close()
