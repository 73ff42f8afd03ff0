"""Expected results of Iceberg's REST Compatibility Kit: all of its tests pass except those listed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.fixtures.compatibility_kit import VERSION

TESTS: Final = 157
"""The number of tests, with each parameter value counted separately."""

UNWRITTEN_FILES: Final = (
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
"""Tests that append files that do not exist, at paths outside of the table's directories.

Such commits are rejected (`catalog/validation/directory_scope.py`). With the files in place, these tests must pass.
"""

CANNOT_PASS: Final[Mapping[str, tuple[str, ...]]] = {
    "the test moves a metadata file on the local disk, but metadata files are objects": (
        "TestTables.testLoadTableWithMissingMetadataFile(Path)",
    ),
}
"""Tests that fail even with the files in place, by reason."""

SWITCHED_OFF: Final[Mapping[str, tuple[str, ...]]] = {
    "names have no slash, because proxies may decode an escaped slash into a path separator": (
        "TestTables.testNamespaceWithSlash()",
        "TestTables.testTableNameWithSlash()",
    ),
    "tables and views are in namespaces with at least one level": (
        "TestTables.createAndDropEmptyNamespace()",
        "TestTables.listNamespacesWithEmptyNamespace()",
        "TestTables.listTablesInEmptyNamespace()",
        "TestTables.namespacePropertiesOnEmptyNamespace()",
        "TestViews.listViewsInEmptyNamespace()",
    ),
}
"""Tests of capabilities that the catalog does not declare, by reason. The switches are in `lakebed/kit`."""


def names(group: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The tests of a group."""
    return [name for listed in group.values() for name in listed]


def section() -> list[str]:
    """The lines of the section about the catalog in docs/conformance.md."""
    absent, failed, off = len(UNWRITTEN_FILES), len(names(CANNOT_PASS)), len(names(SWITCHED_OFF))
    return [
        "## The Iceberg catalog",
        "",
        f"The tests of tables and views in Iceberg's own REST Compatibility Kit, version {VERSION}, are run against",
        "the catalog by `pytest -m heavy tests/clients/iceberg/test_compatibility_kit.py`, which fails when a result",
        "differs from this page. The kit's connection class is not published; a replacement signs requests and uses",
        "locations in the bucket in place of the local disk.",
        "",
        f"Of {TESTS} tests, {TESTS - absent - failed - off} pass unchanged, {off} are switched off and"
        f" {absent + failed} fail. {absent} of these append files that do not",
        "exist, at paths outside of the table, and Lakebed rejects such commits. A second run puts the files into the",
        f"directories of their tables: then {TESTS - failed - off} pass, {off} are switched off and {failed} fails.",
        "",
        *_listed({"these tests fail unless their files are in place": UNWRITTEN_FILES}),
        *_listed(CANNOT_PASS),
        *_listed(SWITCHED_OFF),
    ]


def _listed(group: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for reason, tests in group.items():
        found = dict.fromkeys(test.partition(".")[2].partition("(")[0] for test in tests)
        yield f"- {reason[0].upper()}{reason[1:]}: {', '.join(f'`{test}`' for test in found)}"
