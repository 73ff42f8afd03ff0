"""Listings of granted entries agree with a naive listing, for all strategies and page sizes."""

from __future__ import annotations

from typing import Final

import pytest

from lakebed.catalog import rows
from lakebed.catalog.access import granted_listing
from lakebed.catalog.model import EntryKind
from lakebed.governance.rbac import Privilege
from lakebed.governance.rbac.securables import entry_key
from tests.catalog.harness import CatalogHarness
from tests.catalog.test_catalog_grants import holding

TABLE: Final = EntryKind.TABLE
NAMES: Final = [f"t{number:02}" for number in range(30)]


async def ids_of(catalog: CatalogHarness) -> dict[str, str]:
    """Tables of `ns`, by name, and a view."""
    await catalog.create_view("view")
    return {name: (await catalog.create(name)).entry.id for name in NAMES}


@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize(
    ("batch", "scanned"),
    [
        pytest.param(64, 4, id="few are sought"),
        pytest.param(2, 4, id="many are found on the way"),
        pytest.param(2, 1, id="many, and too long a way"),
        pytest.param(2, 0, id="many, and only as long a way as a page"),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 7])
async def test_pages_equal_a_naive_listing(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch, limit: int, batch: int, scanned: int, step: int
) -> None:
    ids = await ids_of(light_catalog)
    monkeypatch.setattr(rows, "ID_BATCH", batch)
    monkeypatch.setattr(granted_listing, "SCANNED_FOR_EACH", scanned)
    # The statement for few ids has a fixed number of parameters; all ids fit into the statement for many.
    monkeypatch.setattr(rows, "ENTRIES_AMONG", rows.ENTRIES_AMONG_MANY if batch < 64 else rows.ENTRIES_AMONG)
    wanted = NAMES[::step][-9:]
    caller = holding(
        *((entry_key(ids[name]), Privilege.TABLE_LIST) for name in wanted), (entry_key("gone"), Privilege.TABLE_LIST)
    )
    names: list[str] = []
    after = ""
    for _ in range(len(NAMES) + 2):
        page = await light_catalog.entries.list(caller, "lake", ["ns"], TABLE, after=after, limit=limit)
        names += page.names
        assert len(page.names) <= limit
        if not page.truncated:
            break
        assert len(page.names) == limit
        after = page.names[-1]
    assert names == wanted


async def test_page_after_the_last_is_empty(light_catalog: CatalogHarness) -> None:
    ids = await ids_of(light_catalog)
    caller = holding((entry_key(ids["t03"]), Privilege.TABLE_LIST))
    page = await light_catalog.entries.list(caller, "lake", ["ns"], TABLE, after="t03", limit=5)
    assert (page.names, page.truncated) == ([], False)


async def test_many_granted_ids_cost_one_scan_of_the_namespace(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await ids_of(light_catalog)
    monkeypatch.setattr(rows, "ID_BATCH", 2)
    caller = holding(*((entry_key(ids[name]), Privilege.TABLE_LIST) for name in NAMES[::2]))
    statements: list[str] = []
    reader = light_catalog.store.meta
    read = reader.rows

    async def counted(sql: str, *args: object) -> list[tuple[object, ...]]:
        statements.append(sql)
        return await read(sql, *args)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(reader, "rows", counted)
    page = await light_catalog.entries.list(caller, "lake", ["ns"], TABLE, after="", limit=100)
    assert page.names == NAMES[::2]
    # once to count the ids, once for all of them
    assert statements == [rows.ENTRIES_AFTER, rows.ENTRIES_AFTER]
