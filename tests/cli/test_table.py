from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from lakebed.core.clock import ManualClock
from lakebed.server.stores.metadata import SQLITE_FILE
from lakebed.server.stores.object_store import BYTES_FOLDER
from lakebed.storage.folder.storage import FolderStorage
from tests.catalog.harness import CatalogHarness, name, wire_catalog
from tests.meta.stores import open_migrated_file
from tests.objects.stores import wire

from .conftest import Lakebed, Outcome

pytestmark = pytest.mark.slow  # each command opens the stores and waits for the disk

Admin = Callable[..., Outcome]


@pytest.fixture
def admin(lakebed: Lakebed, data: Path) -> Admin:
    """Run a command on the tables of the data folder, printing JSON."""

    def run(*words: str) -> Outcome:
        return lakebed("table", *words, "--data", str(data), "--json")

    return run


@asynccontextmanager
async def catalog_in(data: Path) -> AsyncIterator[CatalogHarness]:
    """The catalog of the data folder."""
    clock = ManualClock()
    meta = await open_migrated_file(data / SQLITE_FILE)
    storage = FolderStorage(data / BYTES_FOLDER, clock)
    store = wire(meta, storage, clock)
    try:
        yield wire_catalog(store)
    finally:
        store.object_context.ingester.close()
        await storage.close()
        await meta.close()


def with_tables(data: Path, *tables: str, drop: bool = False) -> None:
    """Create tables in `ns` of the table bucket `lake`, which are created if missing."""

    async def make() -> None:
        async with catalog_in(data) as catalog:
            if await catalog.store.meta.row("SELECT 1 FROM buckets") is None:
                await catalog.create_table_bucket()
                await catalog.namespace("ns")
            for table in tables:
                await catalog.create(table)
                if drop:
                    await catalog.drop(table)

    asyncio.run(make())


def is_protected(data: Path) -> bool:
    """Whether the table `t` is protected."""

    async def look() -> bool:
        async with catalog_in(data) as catalog:
            return (await catalog.entry(name())).protected

    return asyncio.run(look())


def test_bucket_is_enabled_and_shown(admin: Admin, data: Path) -> None:
    with_tables(data)
    made = admin("enable-bucket", "lake", "--undrop-window", "7d").document
    assert (made["table_bucket"], made["undrop-window-seconds"]) == ("lake", "604800")
    assert admin("bucket", "lake").document == made
    changed = admin("bucket", "lake", "--undrop-window", "1h", "--property", "team=data").document
    assert (changed["undrop-window-seconds"], changed["team"]) == ("3600", "data")
    assert "team" not in admin("bucket", "lake", "--remove-property", "team").document


def test_dropped_table_is_listed_and_restored(admin: Admin, data: Path) -> None:
    with_tables(data)
    admin("bucket", "lake", "--undrop-window", "1h")
    with_tables(data, "t", drop=True)
    (dropped,) = admin("list-dropped", "lake").document
    assert (dropped["name"], dropped["kind"], dropped["files"]) == ("ns.t", "table", "kept")
    assert admin("restore", "lake", "ns.t").document == {"table": "ns.t", "state": "restored"}
    assert admin("list-dropped", "lake").document == []
    again = admin("restore", "lake", "ns.t")
    assert again.status == FAILED
    assert "table or view is not dropped" in again.err


def test_dropped_table_is_purged(admin: Admin, data: Path) -> None:
    with_tables(data)
    admin("bucket", "lake", "--undrop-window", "1h")
    with_tables(data, "t", drop=True)
    assert admin("purge", "lake", "ns.t", "--files").document == {"name": "ns.t", "state": "purged"}
    assert admin("list-dropped", "lake").document == []
    assert admin("purge", "lake", "ns.t").status == FAILED


def test_protection_is_switched_on_and_off(admin: Admin, data: Path) -> None:
    with_tables(data, "t")
    assert admin("protect", "lake", "ns.t").document == {"table": "ns.t", "state": "protected"}
    assert is_protected(data)
    assert admin("unprotect", "lake", "ns.t").document["state"] == "unprotected"
    assert not is_protected(data)
    assert "View does not exist" in admin("protect", "lake", "ns.t", "--view").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("enable-bucket", "none"), "lakebed: no such bucket. bucket=none"),
        (("bucket", "none"), "lakebed: no such catalog or table bucket"),
        (("list-dropped", "none"), "lakebed: no such catalog or table bucket"),
        (("restore", "lake", "ns.none"), "lakebed: no dropped table or view has this name"),
        (("restore", "lake", "none"), "lakebed: expected NAMESPACE.NAME. found="),
        (("protect", "lake", "ns.none"), "lakebed: Table does not exist: ns.none"),
        (("bucket", "lake", "--undrop-window", "soon"), "lakebed: expected a duration"),
        (("bucket", "lake", "--undrop-window", "9999d"), "lakebed: undrop-window-seconds must be a whole number"),
        (("bucket", "lake", "--property", "novalue"), "lakebed: --property: expected NAME=VALUE"),
    ],
)
def test_failed_command_prints_one_line(admin: Admin, data: Path, words: tuple[str, ...], message: str) -> None:
    with_tables(data)
    outcome = admin(*words)
    assert outcome.status == FAILED
    assert outcome.out == ""
    assert outcome.err.startswith(message)
    assert outcome.err.count("\n") == 1


def test_text_output_has_lines(lakebed: Lakebed, data: Path) -> None:
    with_tables(data, "t")
    outcome = lakebed("table", "protect", "lake", "ns.t", "--data", str(data))
    assert outcome.out == "table  ns.t\nstate  protected\n"
