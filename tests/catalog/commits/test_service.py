from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.commits.conflict_backoff import ConflictBackoff
from lakebed.catalog.commits.service import MAX_CHANGES, CommitOptions, read_change
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    PointerMoved,
    Unavailable,
)
from lakebed.objects.config.versioning import Versioning
from tests.catalog.appends import appended
from tests.catalog.harness import (
    ASSERT_CREATE,
    UNPRIVILEGED,
    CatalogHarness,
    FaultyStore,
    a_change,
    a_table,
    name,
    set_properties,
    set_property,
    staged,
    user_with,
    wire_catalog,
)
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
COMMIT_RIGHTS = (Action.UPDATE_METADATA_LOCATION, Action.PUT_TABLE_DATA)


async def commit_log(catalog: CatalogHarness, entry_id: str) -> list[tuple[Any, ...]]:
    return await catalog.store.meta.rows(
        "SELECT generation, operation, previous_at, metadata_at, expected_token, version_token"
        " FROM entry_commits WHERE entry = ? ORDER BY generation",
        entry_id,
    )


# -- one table -------------------------------------------------------------------------------------------------------


async def test_commit_moves_the_pointer_to_a_new_file(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    catalog.store.clock.advance(5)
    committed = await catalog.commit(name(), set_properties(colour="red"))
    entry = committed.entry
    assert entry == await catalog.entry(name())
    assert (entry.id, entry.uuid, entry.generation) == (made.entry.id, made.entry.uuid, 2)
    assert entry.version_token != made.entry.version_token
    assert entry.metadata_at.startswith(f"{entry.location}/metadata/00001-")
    assert (entry.created_ms, entry.updated_ms) == (made.entry.created_ms, made.entry.created_ms + 5000)
    stored = await catalog.metadata(name())
    assert stored.properties["colour"] == "red"
    assert [one.metadata_file for one in stored.metadata_log] == [made.entry.metadata_at]
    assert committed.metadata.document == await catalog.files.read(entry.metadata_at)
    assert len(await catalog.keys_in()) == 2


async def test_commits_are_logged_in_order(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    entries = [made.entry]
    for number in range(3):
        entries.append((await catalog.commit(name(), set_property("n", str(number)))).entry)
    log = await commit_log(catalog, made.entry.id)
    assert [row[0] for row in log] == [1, 2, 3, 4]
    assert [row[1] for row in log] == ["create", "commit", "commit", "commit"]
    assert [row[3] for row in log] == [entry.metadata_at for entry in entries]
    assert [row[2] for row in log] == [None, *(entry.metadata_at for entry in entries[:-1])]
    assert [row[5] for row in log] == [entry.version_token for entry in entries]
    assert [row[4] for row in log] == [None, *(entry.version_token for entry in entries[:-1])]


async def test_commits_append_to_earlier_data(catalog: CatalogHarness) -> None:
    await catalog.create()
    for _ in range(3):
        await catalog.commit(name(), *await appended(catalog, name()))
    stored = await catalog.metadata(name())
    assert len(stored.snapshots) == 3
    assert stored.last_sequence_number == 3
    entry = await catalog.entry(name())
    assert [row[1] for row in await commit_log(catalog, entry.id)] == ["create", "append", "append", "append"]


async def test_commit_without_changes_writes_nothing(catalog: CatalogHarness) -> None:
    await catalog.create(properties={"colour": "red"})
    entry = await catalog.entry(name())
    async with catalog.unchanged():
        for updates in ([], [set_properties(colour="red")], [set_properties(x="1"), _remove("x")]):
            committed = await catalog.commit(name(), *updates)
            assert committed.entry == entry


def _remove(*names: str) -> dict[str, Any]:
    return {"action": "remove-properties", "removals": list(names)}


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": str(uuid4())},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 9},
        {"type": "assert-current-schema-id", "current-schema-id": 9},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9},
        {"type": "assert-default-spec-id", "default-spec-id": 9},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 9},
    ],
    ids=lambda requirement: str(requirement["type"]),
)
async def test_failed_requirement_changes_nothing(catalog: CatalogHarness, requirement: dict[str, Any]) -> None:
    await catalog.create()
    async with catalog.unchanged():
        with pytest.raises(CommitConflict, match="Requirement failed") as conflict:
            await catalog.commit(name(), set_properties(a="1"), requirements=[requirement])
        assert conflict.value.condition == requirement["type"]
        assert not isinstance(conflict.value, PointerMoved)


async def test_commit_succeeds_if_its_requirements_hold(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    await catalog.commit(
        name(),
        set_properties(a="1"),
        requirements=[
            {"type": "assert-table-uuid", "uuid": made.entry.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
            {"type": "assert-current-schema-id", "current-schema-id": 0},
        ],
    )
    assert (await catalog.entry(name())).generation == 2


async def test_invalid_commits_change_nothing(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.create_view("v")
    missing = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": catalog.store.clock.now_ms(),
        "manifest-list": f"{(await catalog.entry(name())).location}/metadata/snap-none.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    async with catalog.unchanged():
        with pytest.raises(InvalidInput):
            await catalog.commit(name(), {"action": "set-default-spec", "spec-id": 7})
        with pytest.raises(InvalidInput):
            await catalog.commit(name(), set_property("format-version", "3"))
        with pytest.raises(InvalidInput):
            await catalog.commit(name(), {"action": "add-snapshot", "snapshot": missing})
        with pytest.raises(NoSuchTable):
            await catalog.commit(name("none"), set_properties(a="1"))
        with pytest.raises(NoSuchTable):
            await catalog.commit(name("v"), set_properties(a="1"))
        with pytest.raises(NoSuchNamespace):
            await catalog.commit(name("t", "none"), set_properties(a="1"))
        with pytest.raises(NoSuchCatalog):
            await catalog.commits.commit(AS_ROOT, "pond", a_change(name(), set_properties(a="1")))


@pytest.mark.parametrize(
    ("requirements", "updates"),
    [
        (b"{}", b"[]"),
        (b"[]", b"null"),
        (b"[", b"[]"),
        (b'[{"type":"assert-moon-phase"}]', b"[]"),
        (b"[]", b'[{"action":"set-colour"}]'),
        (b"[]", b'[{"action":"set-location"}]'),
    ],
)
def test_invalid_commit_documents_are_rejected(requirements: bytes, updates: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_change(name(), requirements, updates)


def test_number_of_changes_is_limited() -> None:
    most = [_remove("x")] * MAX_CHANGES
    assert len(a_change(name(), *most).updates) == MAX_CHANGES
    with pytest.raises(InvalidInput, match="1024"):
        a_change(name(), *most, _remove("x"))
    with pytest.raises(InvalidInput, match="1024"):
        a_change(name(), requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}] * 1025)


async def test_commit_options_are_recorded_in_the_log(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    await catalog.commit(name(), set_properties(a="1"), options=CommitOptions("c1", "tidy", "engine 1"))
    [row] = await catalog.store.meta.rows(
        "SELECT commit_id, operation, writer FROM entry_commits WHERE entry = ? AND generation = 2", made.entry.id
    )
    assert row == ("c1", "tidy", "engine 1")
    _, event = (await catalog.events())[-1]
    assert event.operation == "tidy"


# -- the pointer moves meanwhile -------------------------------------------------------------------------------------


async def test_commit_is_retried_on_the_new_state_if_its_requirements_hold(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name(), set_properties(a="1"))
    committed = await late.commit(name(), set_properties(b="2"))
    assert committed.entry.generation == 3
    stored = await catalog.metadata(name())
    assert (stored.properties["a"], stored.properties["b"]) == ("1", "2")
    assert len(stored.metadata_log) == 2
    assert len(await catalog.keys_in()) == len(await catalog.store.stored_blobs()) == 3


async def test_commit_with_outdated_requirements_is_a_conflict(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    first = await appended(catalog, name())
    second = await appended(catalog, name())
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}

    async def other() -> None:
        await catalog.commit(name(), *first, requirements=[requirement])

    eventful.meanwhile = other
    with pytest.raises(CommitConflict, match="created concurrently"):
        await late.commit(name(), *second, requirements=[requirement])
    stored = await catalog.metadata(name())
    assert list(stored.snapshots) == [first[0]["snapshot"]["snapshot-id"]]
    assert sum("metadata.json" in key for key in await catalog.keys_in()) == 2


async def test_commit_to_a_concurrently_dropped_table_is_not_found(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = catalog.drop
    with pytest.raises(NoSuchTable):
        await late.commit(name(), set_properties(b="2"))
    assert len(await catalog.store.stored_blobs()) == 1


async def test_commit_fails_after_its_attempts(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    overtaken = 0

    async def overtake() -> None:
        nonlocal overtaken
        overtaken += 1
        await catalog.commit(name(), set_property("n", str(overtaken)))
        eventful.meanwhile = overtake

    eventful.meanwhile = overtake
    with pytest.raises(PointerMoved):
        await late.commit(name(), set_properties(b="2"))
    assert (await catalog.entry(name())).generation == 1 + overtaken
    assert "b" not in (await catalog.metadata(name())).properties
    assert len(await catalog.keys_in()) == len(await catalog.store.stored_blobs()) == 1 + overtaken


async def test_concurrent_writers_all_succeed(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    committed = await asyncio.gather(
        *(catalog.commit(name(), set_property(f"writer.{number}", "was here")) for number in range(8))
    )
    assert sorted(one.entry.generation for one in committed) == list(range(2, 10))
    stored = await catalog.metadata(name())
    assert {f"writer.{number}" for number in range(8)} <= stored.properties.keys()
    log = await commit_log(catalog, made.entry.id)
    assert [row[0] for row in log] == list(range(1, 10))
    for before, after in pairwise(log):
        assert (after[2], after[4]) == (before[3], before[5])
    assert [one.metadata_file for one in stored.metadata_log] == [row[3] for row in log[:-1]]
    assert len(await catalog.keys_in()) == len(await catalog.store.stored_blobs()) == 9


async def test_concurrent_writers_of_several_servers_all_succeed(catalog: CatalogHarness) -> None:
    await catalog.create()
    servers = [catalog, *(wire_catalog(catalog.store) for _ in range(3))]
    committed = await asyncio.gather(
        *(server.commit(name(), set_property(f"writer.{n}", "")) for n, server in enumerate(servers))
    )
    assert sorted(one.entry.generation for one in committed) == [2, 3, 4, 5]


async def test_one_of_concurrent_conflicting_writers_succeeds(catalog: CatalogHarness) -> None:
    await catalog.create()
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
    outcomes = await asyncio.gather(
        *(
            catalog.commit(
                name(),
                {"action": "add-schema", "schema": schema},
                {"action": "set-current-schema", "schema-id": -1},
                requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}],
            )
            for _ in range(5)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, CommitConflict) for outcome in outcomes) == 4
    assert (await catalog.entry(name())).generation == 2
    assert len(await catalog.store.stored_blobs()) == 2


async def test_commit_with_an_expected_version_is_not_retried_on_another(catalog: CatalogHarness) -> None:
    made = await catalog.create()
    expecting = CommitOptions(expected_token=made.entry.version_token)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name(), set_properties(a="1"), options=expecting)
    with pytest.raises(PointerMoved, match="not at the expected version"):
        await late.commit(name(), set_properties(b="2"), options=expecting)
    assert (await catalog.entry(name())).generation == 2
    assert len(await catalog.store.stored_blobs()) == 2


# -- files change meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["/data/", "-m0.avro", "metadata/snap-"])
async def test_commit_is_not_published_if_a_validated_file_was_deleted(catalog: CatalogHarness, part: str) -> None:
    await catalog.create()
    updates = await appended(catalog, name())
    (key,) = [key for key in await catalog.keys_in() if part in key]
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.store.delete("lake", key)
    stored = await catalog.store.stored_blobs()
    with pytest.raises(InvalidInput, match="does not exist"):
        await late.commit(name(), *updates)
    assert (await catalog.entry(name())).generation == 1
    assert not (await catalog.metadata(name())).snapshots
    assert await catalog.store.stored_blobs() <= stored


async def test_commit_is_validated_again_if_a_validated_file_was_overwritten(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    updates = await appended(catalog, name())
    (key,) = [key for key in await catalog.keys_in() if "/data/" in key]
    # A valid commit too: it is published.
    eventful.meanwhile = lambda: catalog.store.put("lake", key, b"RAP1" * 8)
    assert (await late.commit(name(), *updates)).entry.generation == 2
    updates = await appended(catalog, name())
    (key,) = [other for other in await catalog.keys_in() if "/data/" in other and other != key]
    eventful.meanwhile = lambda: catalog.store.put("lake", key, b"PAR1" * 9)
    with pytest.raises(InvalidInput, match="size of the file differs"):
        await late.commit(name(), *updates)
    assert (await catalog.entry(name())).generation == 2


async def test_transaction_requires_the_validated_files_of_each_table(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    changes = [a_change(name(table), *await appended(catalog, name(table))) for table in ("a", "b")]
    home = (await catalog.entry(name("b"))).location.removeprefix("s3://lake/")
    (key,) = [key for key in await catalog.keys_in() if key.startswith(f"{home}/data/")]
    eventful.meanwhile = lambda: catalog.store.delete("lake", key)
    with pytest.raises(InvalidInput, match="does not exist"):
        await late.commit_all(*changes)
    assert [(await catalog.entry(name(table))).generation for table in ("a", "b")] == [1, 1]


# -- commits by id ---------------------------------------------------------------------------------------------------


async def test_repeated_commit_gets_the_same_response(catalog: CatalogHarness) -> None:
    await catalog.create()
    options = CommitOptions("c1")
    first = await catalog.commit(name(), set_properties(a="1"), options=options)
    async with catalog.unchanged():
        again = await catalog.commit(name(), set_properties(a="1"), options=options)
    assert again.entry == first.entry
    await catalog.commit(name(), set_properties(a="2"))
    async with catalog.unchanged():
        later = await catalog.commit(name(), set_properties(a="1"), options=options)
    assert later.entry.generation == 3, "the answer shows the table as it is"


async def test_conflict_response_is_paced_by_the_next_commit(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, backoff = light_catalog, ConflictBackoff(longest_wait_seconds=3600)
    monkeypatch.setattr(catalog.commits, "_backoff", backoff)
    await catalog.create()
    stale = [{"type": "assert-current-schema-id", "current-schema-id": 9}]

    async def lose() -> None:
        with pytest.raises(CommitConflict, match="Requirement failed"):
            await catalog.commit(name(), set_properties(a="1"), requirements=stale)

    await lose()  # the first conflict returns at once
    second = asyncio.create_task(lose())
    async with asyncio.timeout(60):
        while not (backoff._waiting or second.done()):
            await asyncio.sleep(0)
        assert not second.done()
        await catalog.commit(name(), set_properties(a="2"))
        await second


async def test_reused_commit_id_is_a_conflict(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.commit(name(), set_properties(a="1"), options=CommitOptions("c1"))
    async with catalog.unchanged():
        with pytest.raises(CommitConflict, match="used for a different commit"):
            await catalog.commit(name(), set_properties(a="2"), options=CommitOptions("c1"))
        with pytest.raises(CommitConflict):
            await catalog.commit(
                name(),
                set_properties(a="1"),
                requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}],
                options=CommitOptions("c1"),
            )


async def test_commit_ids_are_scoped_to_a_table(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
        await catalog.commit(name(table), set_properties(a=table), options=CommitOptions("c1"))
    assert (await catalog.entry(name("b"))).generation == 2


async def test_concurrent_repeats_commit_once(catalog: CatalogHarness) -> None:
    await catalog.create()
    committed = await asyncio.gather(
        *(catalog.commit(name(), set_properties(a="1"), options=CommitOptions("c1")) for _ in range(4))
    )
    assert {one.entry.generation for one in committed} == {2}
    assert len(await catalog.store.stored_blobs()) == 2


async def test_late_repeat_gets_the_same_response(catalog: CatalogHarness) -> None:
    await catalog.create()
    options = CommitOptions("c1")
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
    updates: list[dict[str, Any]] = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    requirement = {"type": "assert-current-schema-id", "current-schema-id": 0}
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name(), *updates, requirements=[requirement], options=options)
    committed = await late.commit(name(), *updates, requirements=[requirement], options=options)
    assert committed.entry.generation == 2


async def test_repeated_staged_commit_creates_once(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    updates = staged(promised.document)
    first = await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE], options=CommitOptions("c1"))
    async with catalog.unchanged():
        again = await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE], options=CommitOptions("c1"))
        assert again.entry == first.entry
        with pytest.raises(AlreadyExists, match=r"Requirement failed: table already exists: ns\.t"):
            await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE])


async def test_repeated_response_requires_permission_to_commit(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await light_catalog.commit(name(), set_properties(a="1"), options=CommitOptions("c1"))
    with pytest.raises(AccessDenied):
        await light_catalog.commit(name(), set_properties(a="1"), options=CommitOptions("c1"), caller=UNPRIVILEGED)


# -- several tables --------------------------------------------------------------------------------------------------


async def test_transaction_changes_tables_together(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("c"))
    await catalog.commit_all(
        a_change(name("a"), set_properties(x="1")),
        a_change(name("b"), *await appended(catalog, name("b"))),
        a_change(name("c"), *staged(promised.document), requirements=[ASSERT_CREATE]),
    )
    assert [(await catalog.entry(name(table))).generation for table in "abc"] == [2, 2, 1]
    assert (await catalog.metadata(name("a"))).properties["x"] == "1"
    assert (await catalog.metadata(name("b"))).current_snapshot is not None


@pytest.mark.parametrize("failing", ["requirement", "update", "missing table", "taken name", "taken place"])
async def test_transaction_changes_all_tables_or_none(catalog: CatalogHarness, failing: str) -> None:
    for table in ("a", "b"):
        await catalog.create(table, location=f"s3://lake/{table}")
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("c", location="s3://lake/c"))
    overlapping = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("d"))
    inside = {"action": "set-location", "location": "s3://lake/a/d"}
    last = {
        "requirement": a_change(
            name("b"), set_properties(x="1"), requirements=[{"type": "assert-default-spec-id", "default-spec-id": 7}]
        ),
        "update": a_change(name("b"), {"action": "set-current-schema", "schema-id": 7}),
        "missing table": a_change(name("none"), set_properties(x="1")),
        "taken name": a_change(name("b"), *staged(promised.document), requirements=[ASSERT_CREATE]),
        "taken place": a_change(name("d"), *staged(overlapping.document), inside, requirements=[ASSERT_CREATE]),
    }[failing]
    async with catalog.unchanged():
        with pytest.raises((CommitConflict, InvalidInput, NoSuchTable, AlreadyExists)):
            await catalog.commit_all(
                a_change(name("a"), set_properties(x="1")),
                a_change(name("c"), *staged(promised.document), requirements=[ASSERT_CREATE]),
                last,
            )


async def test_several_changes_of_one_table_are_one_commit(catalog: CatalogHarness) -> None:
    await catalog.create()
    await catalog.commit_all(
        a_change(
            name(),
            set_properties(x="1", y="1"),
            requirements=[{"type": "assert-current-schema-id", "current-schema-id": 0}],
        ),
        a_change(
            name(), set_properties(y="2"), requirements=[{"type": "assert-default-spec-id", "default-spec-id": 0}]
        ),
    )
    stored = await catalog.metadata(name())
    assert (stored.properties["x"], stored.properties["y"]) == ("1", "2")
    entry = await catalog.entry(name())
    assert entry.generation == 2
    [row] = await catalog.store.meta.rows(
        "SELECT requirements FROM entry_commits WHERE entry = ? AND generation = 2", entry.id
    )
    assert [one["type"] for one in msgspec.json.decode(row[0])] == [
        "assert-current-schema-id",
        "assert-default-spec-id",
    ]


async def test_empty_transaction_does_nothing(catalog: CatalogHarness) -> None:
    async with catalog.unchanged():
        await catalog.commit_all()


async def test_new_tables_of_one_transaction_cannot_share_a_location(catalog: CatalogHarness) -> None:
    first = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("a", location="s3://lake/x"))
    second = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table("b", location="s3://lake/x/y"))
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="overlaps"):
            await catalog.commit_all(
                a_change(name("a"), *staged(first.document), requirements=[ASSERT_CREATE]),
                a_change(name("b"), *staged(second.document), requirements=[ASSERT_CREATE]),
            )


async def test_transaction_is_retried_after_a_concurrent_commit(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.commit(name("b"), set_properties(y="1"))
    await late.commit_all(a_change(name("a"), set_properties(x="1")), a_change(name("b"), set_properties(x="1")))
    assert [(await catalog.entry(name(table))).generation for table in "ab"] == [2, 3]
    assert len(await catalog.store.stored_blobs()) == 5


async def test_table_with_requirements_only_must_not_change_concurrently(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    unborn = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    updates = await appended(catalog, name("b"))
    eventful.meanwhile = lambda: catalog.commit(name("b"), *updates)
    with pytest.raises(CommitConflict, match="created concurrently"):
        await late.commit_all(a_change(name("a"), set_properties(x="1")), a_change(name("b"), requirements=[unborn]))
    assert (await catalog.entry(name("a"))).generation == 1


async def test_transactions_lock_tables_without_deadlock(catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await catalog.create(table)
    orders = (("a", "b"), ("b", "a"))
    await asyncio.gather(
        *(
            catalog.commit_all(*(a_change(name(one), set_property(f"n{number}", "")) for one in orders[number % 2]))
            for number in range(4)
        )
    )
    for table in ("a", "b"):
        assert (await catalog.entry(name(table))).generation == 5


# -- what is left behind ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deletes", [True, False])
async def test_metadata_log_is_truncated_and_old_files_deleted_if_configured(
    catalog: CatalogHarness, deletes: bool
) -> None:
    await catalog.create(
        properties={
            "write.metadata.previous-versions-max": "2",
            "write.metadata.delete-after-commit.enabled": str(deletes),
        }
    )
    files = [(await catalog.entry(name())).metadata_at]
    for number in range(4):
        files.append((await catalog.commit(name(), set_property("n", str(number)))).entry.metadata_at)
    stored = await catalog.metadata(name())
    assert [one.metadata_file for one in stored.metadata_log] == files[2:4]
    kept = files[2:] if deletes else files
    assert [f"s3://lake/{key}" for key in await catalog.keys_in()] == sorted(kept)


async def test_old_metadata_in_write_metadata_path_is_deleted_too(catalog: CatalogHarness) -> None:
    await catalog.create(
        properties={
            "write.metadata.path": "s3://lake/meta/t",
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        }
    )
    for number in range(3):
        await catalog.commit(name(), set_property("n", str(number)))
    assert len(await catalog.keys_in()) == 2


async def test_commit_succeeds_when_an_old_file_cannot_be_deleted(
    catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await catalog.create(
        properties={
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        }
    )
    await catalog.commit(name(), set_properties(n="1"))

    async def fail(*_: object) -> None:
        raise Unavailable("no")

    monkeypatch.setattr(catalog.store.deleter, "delete_many", fail)
    committed = await catalog.commit(name(), set_properties(n="2"))
    assert committed.entry.generation == 3


async def test_old_files_in_other_stores_are_kept(catalog: CatalogHarness) -> None:
    """A registered table may have metadata files in another store."""
    made = await catalog.create(
        properties={
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        }
    )
    document = msgspec.json.decode(made.metadata.document)
    document["metadata-log"] = [
        {"timestamp-ms": made.entry.created_ms, "metadata-file": where}
        for where in (
            "file:///warehouse/t/v1.metadata.json",
            "s3://other/x",
            "s3://lake/elsewhere/x",
            f"{made.entry.location}/../x",
        )
    ]
    await catalog.store.put("lake", "elsewhere/x", b"mine")
    await catalog.store.put("lake", "inbox/v3.metadata.json", msgspec.json.encode(document))
    await catalog.drop()
    await catalog.registration.register_table(AS_ROOT, "lake", name(), "s3://lake/inbox/v3.metadata.json")
    committed = await catalog.commit(name(), set_properties(n="1"))
    assert committed.entry.generation == 2
    assert {"elsewhere/x", "inbox/v3.metadata.json"} < set(await catalog.keys_in())


async def test_undecided_outcome_keeps_the_metadata_file(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    unsure = wire_catalog(catalog.store, eventful)
    eventful.lost = Unavailable("the answer was lost", undecided=True)
    with pytest.raises(Unavailable):
        await unsure.commit(name(), set_properties(a="1"))
    entry = await catalog.entry(name())
    assert entry.generation == 2
    assert (await catalog.metadata(name())).properties["a"] == "1"
    assert len(await catalog.store.stored_blobs()) == 2


@pytest.mark.parametrize("failure", [Unavailable("refused"), RuntimeError("a defect")])
async def test_failed_commit_leaves_no_file(catalog: CatalogHarness, failure: Exception) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    failing = wire_catalog(catalog.store, eventful)
    async with catalog.unchanged():
        eventful.refused = failure
        with pytest.raises(type(failure)):
            await failing.commit(name(), set_properties(a="1"))


async def test_undecided_failure_leaves_its_file_to_the_orphan_sweep(catalog: CatalogHarness) -> None:
    await catalog.create()
    eventful = FaultyStore(catalog.store.meta)
    failing = wire_catalog(catalog.store, eventful)
    eventful.refused = Unavailable("lost", undecided=True)
    with pytest.raises(Unavailable):
        await failing.commit(name(), set_properties(a="1"))
    assert (await catalog.entry(name())).generation == 1
    assert len(await catalog.store.stored_blobs()) == 2


async def test_commit_works_in_a_versioned_bucket(catalog: CatalogHarness) -> None:
    await catalog.store.buckets.set_versioning(ROOT, "lake", Versioning.ENABLED)
    await catalog.create()
    await catalog.commit(name(), set_properties(a="1"))
    assert (await catalog.metadata(name())).properties["a"] == "1"


# -- staged tables ---------------------------------------------------------------------------------------------------


async def test_table_uuids_are_unique(catalog: CatalogHarness) -> None:
    await catalog.create("other")
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    updates = staged(promised.document)
    updates[0]["uuid"] = (await catalog.entry(name("other"))).uuid
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match="uuid"):
            await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE])


async def test_uuid_of_a_table_being_purged_is_not_reused(catalog: CatalogHarness) -> None:
    """The purge ends the permissions of the uuid, which would be the new table's."""
    old = await catalog.create("other")
    await catalog.drop("other", purge=True)
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    updates = staged(promised.document)
    updates[0]["uuid"] = old.entry.uuid
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match="uuid"):
            await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE])
    await catalog.purges.run_due()
    await catalog.commit(name(), *updates, requirements=[ASSERT_CREATE])


async def test_staged_commit_fails_if_its_reservation_was_lost(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    updates = staged(promised.document)
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = catalog.create
    with pytest.raises(AlreadyExists, match="Table already exists"):
        await late.commit(name(), *updates, requirements=[ASSERT_CREATE])
    assert len(await catalog.store.stored_blobs()) == 1


async def test_staged_commit_fails_if_a_view_took_the_name(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    await catalog.create_view("t")
    async with catalog.unchanged():
        with pytest.raises(AlreadyExists, match=r"View with same name already exists: ns\.t"):
            await catalog.commit(name(), *staged(promised.document), requirements=[ASSERT_CREATE])


async def test_staged_commit_fails_if_its_namespace_was_dropped(catalog: CatalogHarness) -> None:
    promised = await catalog.creation.stage(AS_ROOT, "lake", ("ns",), a_table())
    eventful = FaultyStore(catalog.store.meta)
    late = wire_catalog(catalog.store, eventful)
    eventful.meanwhile = lambda: catalog.namespaces.drop(AS_ROOT, "lake", ["ns"])
    with pytest.raises(NoSuchNamespace):
        await late.commit(name(), *staged(promised.document), requirements=[ASSERT_CREATE])
    assert await catalog.store.stored_blobs() == set()


# -- who may ---------------------------------------------------------------------------------------------------------


async def test_commit_requires_permission(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    await light_catalog.create("other")
    update = set_properties(a="1")
    async with light_catalog.unchanged():
        for caller in (
            UNPRIVILEGED,
            *(user_with(one) for one in COMMIT_RIGHTS),
            user_with("s3:*", Action.CREATE_TABLE),
        ):
            with pytest.raises(AccessDenied):
                await light_catalog.commit(name(), update, caller=caller)
            with pytest.raises(AccessDenied):
                await light_catalog.commit_all(a_change(name(), update), caller=caller)
    table = f"arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/{made.entry.id}"
    await light_catalog.commit(name(), update, caller=user_with(*COMMIT_RIGHTS, resource=table))
    with pytest.raises(AccessDenied):
        await light_catalog.commit(name("other"), update, caller=user_with(*COMMIT_RIGHTS, resource=table))
    by_name = user_with(
        *COMMIT_RIGHTS, condition={"StringEquals": {"s3tables:tableName": "t", "s3tables:namespace": "ns"}}
    )
    await light_catalog.commit(name(), set_properties(a="2"), caller=by_name)
    with pytest.raises(AccessDenied):
        await light_catalog.commit(name("other"), update, caller=by_name)


async def test_transaction_requires_permission_for_each_table(light_catalog: CatalogHarness) -> None:
    for table in ("a", "b"):
        await light_catalog.create(table)
    only_a = user_with(*COMMIT_RIGHTS, condition={"StringEquals": {"s3tables:tableName": "a"}})
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await light_catalog.commit_all(
                *(a_change(name(table), set_properties(x="1")) for table in ("a", "b")), caller=only_a
            )


async def test_staged_commit_requires_permission_to_create(light_catalog: CatalogHarness) -> None:
    mine = Mutation(user_with(Action.CREATE_TABLE))
    promised = await light_catalog.creation.stage(mine, "lake", ("ns",), a_table())
    updates = staged(promised.document)
    async with light_catalog.unchanged():
        for caller in (UNPRIVILEGED, user_with(*COMMIT_RIGHTS)):
            with pytest.raises(AccessDenied):
                await light_catalog.commit(name(), *updates, requirements=[ASSERT_CREATE], caller=caller)
    await light_catalog.commit(name(), *updates, requirements=[ASSERT_CREATE], caller=user_with(Action.CREATE_TABLE))


async def test_parsed_metadata_is_that_of_the_pointer(light_catalog: CatalogHarness) -> None:
    made = await light_catalog.create()
    fresh = wire_catalog(light_catalog.store)
    parsed = await fresh.commits.parsed(made.catalog, made.entry)
    assert parsed.uuid == made.entry.uuid
    assert await fresh.commits.parsed(made.catalog, made.entry) is parsed
