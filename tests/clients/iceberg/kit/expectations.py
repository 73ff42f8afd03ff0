"""What is expected of Iceberg's REST Compatibility Kit: all of its tests pass, but for those that are listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.fixtures.compatibility_kit import VERSION

TESTS: Final = 157
"""How many it has, each value of a test's parameter counted by itself."""

FILES_NOBODY_WROTE: Final = (
    "TestTables.dropAfterRenameDoesntCorruptTable()",
    "TestTables.testAppend()",
    "TestTables.testCatalogWithCustomMetricsReporter()",
    "TestTables.testCompleteCreateOrReplaceTransactionCreate()",
    "TestTables.testCompleteCreateOrReplaceTransactionReplace()",
    "TestTables.testCompleteCreateTransaction()",
    "TestTables.testCompleteCreateTransactionMultipleSchemas()",
    "TestTables.testCompleteCreateTransactionV2()",
    "TestTables.testCompleteReplaceTransaction()",
    "TestTables.testConcurrentAppendEmptyTable()",
    "TestTables.testConcurrentAppendNonEmptyTable()",
    "TestTables.testConcurrentReplaceTransactionPartitionSpec()",
    "TestTables.testConcurrentReplaceTransactionPartitionSpec2()",
    "TestTables.testConcurrentReplaceTransactionPartitionSpecConflict()",
    "TestTables.testConcurrentReplaceTransactionSchema()",
    "TestTables.testConcurrentReplaceTransactionSchema2()",
    "TestTables.testConcurrentReplaceTransactionSchemaConflict()",
    "TestTables.testConcurrentReplaceTransactionSortOrder()",
    "TestTables.testConcurrentReplaceTransactionSortOrderConflict()",
    "TestTables.testConcurrentReplaceTransactions()",
    "TestTables.testCreateOrReplaceReplaceTransactionReplace()",
    "TestTables.testCreateOrReplaceTransactionCreate()",
    "TestTables.testCreateTransaction()",
    "TestTables.testRegisterTable()",
    "TestTables.testRemoveUnusedSchemas(boolean)[1]",
    "TestTables.testRemoveUnusedSchemas(boolean)[2]",
    "TestTables.testRemoveUnusedSpec(boolean)[1]",
    "TestTables.testRemoveUnusedSpec(boolean)[2]",
    "TestTables.testReplaceTableKeepsSnapshotLog()",
    "TestTables.testReplaceTransaction()",
)
"""Tests that append files which are not there, at paths that are of no table.

Such a commit is rejected: a table's files are in its own directories
(`catalog/validation/directory_scope.py`), and they exist when they become visible. With the files in place, each of the
tests must pass.
"""

CANNOT_PASS: Final[Mapping[str, tuple[str, ...]]] = {
    "the test moves a metadata file aside on the local disk, and there is none: the file is an object": (
        "TestTables.testLoadTableWithMissingMetadataFile(Path)",
    ),
}
"""Tests that fail either way, by the reason."""

SWITCHED_OFF: Final[Mapping[str, tuple[str, ...]]] = {
    "names hold no slash, because what stands before a server may take an escaped one for a part of the path": (
        "TestTables.testNamespaceWithSlash()",
        "TestTables.testTableNameWithSlash()",
    ),
    "tables and views are in namespaces, which have at least one level": (
        "TestTables.createAndDropEmptyNamespace()",
        "TestTables.listNamespacesWithEmptyNamespace()",
        "TestTables.listTablesInEmptyNamespace()",
        "TestTables.namespacePropertiesOnEmptyNamespace()",
        "TestViews.listViewsInEmptyNamespace()",
    ),
}
"""Tests of what the catalog does not claim, by the reason. The switches are in `lakebed/kit`."""


def names(group: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The tests of a group."""
    return [name for listed in group.values() for name in listed]


def section() -> list[str]:
    """The lines of a page that say how the catalog does."""
    absent, failed, off = len(FILES_NOBODY_WROTE), len(names(CANNOT_PASS)), len(names(SWITCHED_OFF))
    return [
        "## The Iceberg catalog",
        "",
        f"The tests of tables and views in Iceberg's own REST Compatibility Kit, version {VERSION}, are run against",
        "the catalog by `pytest -m heavy tests/clients/iceberg/test_compatibility_kit.py`, which fails when a test",
        "does otherwise than is said here. The class by which the kit connects is not published. One of ours signs",
        "requests, and names places in the bucket where the kit would name some on a local disk.",
        "",
        f"Of {TESTS} tests, {TESTS - absent - failed - off} pass as they are, {off} are switched off and"
        f" {absent + failed} fail. {absent} of these append files that nobody",
        "has written, at paths that are of no table, and Lakebed takes no such commit. All tests are run again with",
        "the files in place, each in the directory of its table:"
        f" then {TESTS - failed - off} pass, {off} are switched off and {failed} fails.",
        "",
        *_listed({"fail unless their files are in place": FILES_NOBODY_WROTE}),
        *_listed(CANNOT_PASS),
        *_listed(SWITCHED_OFF),
    ]


def _listed(group: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for reason, tests in group.items():
        found = dict.fromkeys(test.partition(".")[2].partition("(")[0] for test in tests)
        yield f"- {reason[0].upper()}{reason[1:]}: {', '.join(f'`{test}`' for test in found)}"
