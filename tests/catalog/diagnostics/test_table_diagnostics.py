from __future__ import annotations

import pytest

from lakebed.catalog.commits.service import CommitOptions
from lakebed.catalog.diagnostics.commit_chain import ChainStatus, RecoveryState
from lakebed.catalog.diagnostics.recovery import OPERATION, Recovered
from lakebed.catalog.diagnostics.recovery_status import MetadataStatus, RecoveryAction, RecoveryStatus
from lakebed.catalog.diagnostics.table_diagnostics import Diagnosis, RecordedState
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, NoSuchNamespace, NoSuchTable
from lakebed.meta.seam import Transaction, Value
from tests.catalog.appends import appended
from tests.catalog.extension_catalog import extended
from tests.catalog.harness import UNPRIVILEGED, CatalogHarness, name, set_properties, user_with
from tests.objects.stores import ROOT


async def recorded(catalog: CatalogHarness) -> RecordedState:
    return await extended(catalog).tables.diagnostics.recorded(ROOT, "lake", name())


async def diagnose(catalog: CatalogHarness) -> Diagnosis:
    return await extended(catalog).tables.diagnostics.diagnose(ROOT, "lake", name())


async def recover(catalog: CatalogHarness) -> Recovered:
    return await extended(catalog).tables.recovery.recover(ROOT, "lake", name())


async def tamper(catalog: CatalogHarness, sql: str, *args: Value) -> None:
    """Change rows directly, like a partial restore."""

    async def work(tx: Transaction) -> None:
        assert await tx.run(sql, *args) > 0

    await catalog.store.meta.transact(work)


async def grown(catalog: CatalogHarness, commits: int = 3) -> None:
    """A table with this many commits after its creation, one of them with data."""
    await catalog.create()
    await catalog.commit(name(), *await appended(catalog, name()))
    for number in range(commits - 1):
        await catalog.commit(name(), set_properties(n=str(number)))


# -- healthy tables -------------------------------------------------------------------------------------------------


async def test_healthy_table_has_nothing_to_repair(catalog: CatalogHarness) -> None:
    await grown(catalog)
    found = await diagnose(catalog)
    assert (found.status, found.actions) == (RecoveryStatus.HEALTHY, [])
    assert found.metadata.status is MetadataStatus.VALID
    assert (found.metadata.snapshots, found.metadata.log_entries) == (1, 3)
    assert found.recorded.line.status is ChainStatus.COMPLETE
    assert [one.generation for one in found.recorded.line.findings] == [4, 3, 2, 1]
    assert (found.orphans, found.orphans_complete) == ((), True)
    async with catalog.unchanged():
        done = await recover(catalog)
    assert (done.finalized, done.discarded, done.reclaimed) == (0, 0, ())


async def test_log_statistics_are_reported(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    started = light_catalog.store.clock.now_ms()
    light_catalog.store.clock.advance(60)
    for writer in ("spark", "spark", "trino"):
        await light_catalog.commit(name(), set_properties(w=writer + "1"), options=CommitOptions(writer=writer))
        await light_catalog.commit(name(), set_properties(w=writer + "2"))
    found = (await recorded(light_catalog)).commits
    assert (found.records, found.writers) == (7, 2)
    assert (found.first_ms, found.last_ms) == (started, started + 60_000)


async def test_origin_directories_and_lease_holders_are_reported(light_catalog: CatalogHarness) -> None:
    await light_catalog.create("gone", location="s3://lake/here")
    where = (await light_catalog.drop("gone")).metadata_at
    imports = extended(light_catalog).tables.imports
    await imports.import_table(Mutation(ROOT), "lake", name(), where, properties={"from": "glue"}, external_token="7")
    await tamper(light_catalog, "INSERT INTO leases (name, holder, token, expires_ms) VALUES ('a', 'h:1', 1, ?)", 2**50)
    found = await recorded(light_catalog)
    assert found.origin is not None
    assert (found.origin.external_token, found.origin.properties) == ("7", {"from": "glue"})
    assert found.directories == ("here/",)
    assert found.lease_holders == ("h:1",)
    assert found.store == "sqlite"


async def test_diagnosis_requires_permission(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await light_catalog.create_view()
    tables = extended(light_catalog).tables
    with pytest.raises(AccessDenied):
        await tables.diagnostics.diagnose(UNPRIVILEGED, "lake", name())
    with pytest.raises(AccessDenied):
        await tables.recovery.recover(user_with("s3tables:GetTableMetadataLocation"), "lake", name())
    for absent in (name("none"), name("v")):
        with pytest.raises(NoSuchTable):
            await tables.diagnostics.diagnose(ROOT, "lake", absent)
    with pytest.raises(NoSuchNamespace):
        await tables.diagnostics.recorded(ROOT, "lake", name("t", "none"))


# -- files ----------------------------------------------------------------------------------------------------------


async def test_missing_metadata_file_is_found_despite_the_cache(light_catalog: CatalogHarness) -> None:
    await grown(light_catalog)
    entry = await light_catalog.entry(name())
    key = entry.metadata_at.removeprefix("s3://lake/")
    await tamper(light_catalog, "DELETE FROM objects WHERE key = ?", key)
    assert light_catalog.cache.get(entry.version_token) is not None
    found = await diagnose(light_catalog)
    assert found.metadata.status is MetadataStatus.MISSING_OBJECT
    assert found.status is RecoveryStatus.READ_ONLY_RECOMMENDED
    assert found.actions == [RecoveryAction.RESTORE_CURRENT_METADATA_OBJECT]


@pytest.mark.parametrize("body", [b"{", b'{"format-version": 2}', b"\x1f\x8b broken"])
async def test_unreadable_metadata_file_is_found(light_catalog: CatalogHarness, body: bytes) -> None:
    await light_catalog.create()
    await light_catalog.store.bucket("loose")
    await light_catalog.store.put("loose", "bad.metadata.json", body)
    await tamper(light_catalog, "UPDATE entries SET metadata_at = 's3://loose/bad.metadata.json'")
    found = await diagnose(light_catalog)
    assert found.metadata.status is MetadataStatus.INVALID_JSON
    assert found.metadata.reason
    assert RecoveryAction.FIX_CURRENT_METADATA_JSON in found.actions


async def test_invalid_pointer_location_is_found(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await tamper(light_catalog, "UPDATE entries SET metadata_at = 'file:///tmp/x'")
    found = await diagnose(light_catalog)
    assert found.metadata.status is MetadataStatus.INVALID_LOCATION
    assert RecoveryAction.MOVE_CURRENT_METADATA_INSIDE_TABLE in found.actions


async def test_missing_files_of_the_metadata_log_are_listed(light_catalog: CatalogHarness) -> None:
    await grown(light_catalog)
    first = (await light_catalog.metadata(name())).metadata_log[0].metadata_file
    await light_catalog.store.delete("lake", first.removeprefix("s3://lake/"))
    found = await diagnose(light_catalog)
    assert found.metadata.missing_log_files == (first,)
    assert found.status is RecoveryStatus.HEALTHY


async def test_unreferenced_metadata_files_are_listed(catalog: CatalogHarness) -> None:
    await grown(catalog)
    home = (await catalog.entry(name())).location.removeprefix("s3://lake/")
    for orphan in ("00009-lost.metadata.json", "v1.gz.metadata.json", "00003-x.metadata.json.gz"):
        await catalog.store.put("lake", f"{home}/metadata/{orphan}", b"{}")
    await catalog.store.put("lake", f"{home}/metadata/snap-1.avro.bak", b"")
    await catalog.store.put("lake", f"{home}/data/x.metadata.json", b"")
    found = await diagnose(catalog)
    assert [location.rpartition("/")[2] for location in found.orphans] == [
        "00003-x.metadata.json.gz",
        "00009-lost.metadata.json",
        "v1.gz.metadata.json",
    ]
    assert found.orphans_complete


async def test_difference_between_row_and_file_is_reported(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    await tamper(light_catalog, "UPDATE entries SET uuid = 'other', format_version = 1")
    found = (await diagnose(light_catalog)).metadata.disagreements
    assert [text.partition(":")[0] for text in found] == ["table-uuid", "format-version"]


# -- the log --------------------------------------------------------------------------------------------------------


async def test_missing_record_is_restored(catalog: CatalogHarness) -> None:
    await grown(catalog)
    before = (await recorded(catalog)).line.findings
    await tamper(catalog, "DELETE FROM entry_commits WHERE generation = 3")
    found = await diagnose(catalog)
    assert (found.status, found.actions) == (RecoveryStatus.RECOVERABLE, [RecoveryAction.RUN_COMMIT_RECOVERY])
    entry = await catalog.entry(name())
    done = await recover(catalog)
    assert (done.finalized, done.discarded) == (1, 0)
    assert await catalog.entry(name()) == entry
    after = (await recorded(catalog)).line
    assert after.status is ChainStatus.COMPLETE
    written = after.findings[1]
    assert written.operation == OPERATION
    lost = before[1]
    assert (written.new_metadata_location, written.new_version_token) == (
        lost.new_metadata_location,
        lost.new_version_token,
    )
    assert (await catalog.events())[-1][0] == "TableRecovered"


async def test_records_of_lost_commits_are_removed(catalog: CatalogHarness) -> None:
    await grown(catalog)
    earlier = await catalog.entry(name())
    await catalog.commit(name(), set_properties(n="lost"))
    await tamper(
        catalog,
        "UPDATE entries SET metadata_at = ?, version_token = ?, generation = ? WHERE id = ?",
        earlier.metadata_at,
        earlier.version_token,
        earlier.generation,
        earlier.id,
    )
    found = await diagnose(catalog)
    assert found.actions == [RecoveryAction.RUN_COMMIT_RECOVERY, RecoveryAction.RETRY_COMMIT]
    assert len(found.orphans) == 0  # the log still names it
    done = await recover(catalog)
    assert (done.finalized, done.discarded) == (0, 1)
    # Its record blocked the next commit.
    assert (await catalog.commit(name(), set_properties(n="again"))).entry.generation == earlier.generation + 1
    again = await diagnose(catalog)
    assert again.status is RecoveryStatus.HEALTHY
    assert len(again.orphans) == 1


async def test_gap_of_several_records_is_reported_and_kept(light_catalog: CatalogHarness) -> None:
    await grown(light_catalog, commits=4)
    await tamper(light_catalog, "DELETE FROM entry_commits WHERE generation IN (3, 4)")
    found = await diagnose(light_catalog)
    assert found.status is RecoveryStatus.MANUAL_REVIEW_REQUIRED
    assert found.recorded.line.status is ChainStatus.BROKEN
    async with light_catalog.unchanged():
        done = await recover(light_catalog)
    assert done.recorded.line.count(RecoveryState.MANUAL_REVIEW) > 0


async def test_unrecorded_directory_is_claimed_again(light_catalog: CatalogHarness) -> None:
    await light_catalog.create()
    claimed = await light_catalog.claimed()
    await tamper(light_catalog, "DELETE FROM entry_locations")
    found = await diagnose(light_catalog)
    assert found.status is RecoveryStatus.RECOVERABLE
    assert len(found.metadata.missing_directories) == 1
    done = await recover(light_catalog)
    assert done.reclaimed == found.metadata.missing_directories
    assert await light_catalog.claimed() == claimed
