"""Every public member of the installed pyfluss is used by a test, or is listed with a reason."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import fluss

pytestmark = pytest.mark.integration

_FOLDER: Final = Path(__file__).parent
_NAMED_IN: Final[Mapping[str, str]] = {
    "AppendWriter.append": "test_log_tables.py::test_rows_are_read_in_order_with_their_offsets",
    "AppendWriter.flush": "test_log_tables.py::test_rows_are_read_in_order_with_their_offsets",
    "BatchScanner.bucket": "test_pyfluss_rest.py::test_bounded_scan_ends_after_its_batch",
    "BatchScanner.to_arrow": "test_pyfluss_rest.py::test_bounded_scan_ends_after_its_batch",
    "BatchScanner.to_pandas": "test_pyfluss_rest.py::test_bounded_scan_ends_after_its_batch",
    "ColumnRef.contains": "test_pyfluss_rest.py::test_filters_keep_all_matching_rows",
    "ColumnRef.name": "test_pyfluss_rest.py::test_filters_keep_all_matching_rows",
    "DatabaseDescriptor.comment": "test_admin.py::test_databases_are_created_listed_and_dropped",
    "DatabaseDescriptor.get_custom_properties": "test_admin.py::test_databases_are_created_listed_and_dropped",
    "DatabaseInfo.created_time": "test_admin.py::test_databases_are_created_listed_and_dropped",
    "DatabaseInfo.database_name": "test_admin.py::test_databases_are_created_listed_and_dropped",
    "DatabaseInfo.modified_time": "test_admin.py::test_databases_are_created_listed_and_dropped",
    "FlussAdmin.get_table_info": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "FlussConnection.close": "serving.py::connected",
    "FlussTable.get_table_info": "test_admin.py::test_partitions_are_created_listed_and_dropped",
    "FlussTable.has_primary_key": "test_kv_tables.py::test_lookup_returns_the_latest_row_of_a_key",
    "LogScanner.to_arrow": "test_log_tables.py::test_every_batch_api_returns_the_same_rows",
    "LogScanner.to_pandas": "test_log_tables.py::test_every_batch_api_returns_the_same_rows",
    "Lookuper.lookup": "test_kv_tables.py::test_lookup_returns_the_latest_row_of_a_key",
    "OffsetSpec.timestamp": "test_admin.py::test_offsets_are_listed",
    "PartitionInfo.partition_id": "test_log_tables.py::test_partitions_have_separate_buckets",
    "PrefixLookuper.lookup": "test_kv_tables.py::test_prefix_lookup_returns_all_keys_with_the_prefix",
    "RecordBatch.bucket": "test_log_tables.py::test_every_batch_api_returns_the_same_rows",
    "ScanRecord.timestamp": "test_log_tables.py::test_rows_are_read_in_order_with_their_offsets",
    "ScanRecords.count": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "ScanRecords.items": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "ScanRecords.keys": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "ScanRecords.values": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "Schema.get_column_names": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "Schema.get_primary_keys": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "TableAppend.create_writer": "test_log_tables.py::test_rows_are_read_in_order_with_their_offsets",
    "TableBucket.partition_id": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "TableBucket.table_id": "test_pyfluss_rest.py::test_records_are_grouped_by_bucket",
    "TableDescriptor.get_schema": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "TableInfo.comment": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TableInfo.created_time": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "TableInfo.get_column_names": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TableInfo.get_custom_properties": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TableInfo.get_primary_keys": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TableInfo.get_schema": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "TableInfo.has_primary_key": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TableInfo.modified_time": "test_pyfluss_rest.py::test_table_info_matches_the_definition",
    "TableInfo.table_id": "test_log_tables.py::test_limit_scan_returns_the_last_rows_of_a_bucket",
    "TableLookup.create_lookuper": "test_kv_tables.py::test_lookup_returns_the_latest_row_of_a_key",
    "TablePath.database_name": "test_admin.py::test_tables_are_created_listed_described_and_dropped",
    "TablePrefixLookup.create_lookuper": "test_kv_tables.py::test_prefix_lookup_returns_all_keys_with_the_prefix",
    "TableScan.filter": "test_log_tables.py::test_filter_keeps_all_matching_rows",
    "TableUpsert.create_writer": "test_kv_tables.py::test_lookup_returns_the_latest_row_of_a_key",
    "UpsertWriter.flush": "test_kv_tables.py::test_changelog_has_every_change_of_each_key",
}
"""The tests that use members with ambiguous names."""

_NOT_EXERCISED: Final[Mapping[str, str]] = {
    "ErrorCode": "constants: test_pyfluss_rest.py iterates over all of them",
}
"""Unused members, with the reason."""

_EVERYDAY: Final = (dict, list, str, bytes, Path, pa.Table, pa.RecordBatch)
"""Types whose attribute names do not imply a use of pyfluss."""


def public_members() -> Iterator[tuple[str, str]]:
    """Each class of pyfluss with each of its public members."""
    for name, found in sorted(vars(fluss).items()):
        if inspect.isclass(found) and not name.startswith("_"):
            inherited = set(dir(BaseException)) if issubclass(found, BaseException) else set(dir(object))
            for member in dir(found):
                if not member.startswith("_") and member not in inherited:
                    yield name, member


def attributes_in(tree: ast.AST) -> set[str]:
    """The names of used attributes, including names in strings for getattr."""
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return attributes | {text for text in texts if text.isidentifier() and "_" in text}


def module(name: str) -> ast.Module:
    return ast.parse((_FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def used() -> set[str]:
    """The attributes used in the modules of this folder that import pyfluss."""
    found: set[str] = set()
    for path in _FOLDER.glob("*.py"):
        tree = module(path.name)
        if path != Path(__file__) and "import fluss" in path.read_text(encoding="utf-8"):
            found |= attributes_in(tree)
    return found


def test_every_public_member_is_used_or_listed_with_a_reason(used: set[str]) -> None:
    owners = defaultdict(list)
    for owner, member in public_members():
        owners[member].append(owner)
    assert len(owners) > 150  # otherwise the inspection found another module
    missing = []
    for member, classes in owners.items():
        is_distinctive = len(classes) == 1 and not any(hasattr(kind, member) for kind in _EVERYDAY)
        for owner in classes:
            name = f"{owner}.{member}"
            if owner in _NOT_EXERCISED or name in _NOT_EXERCISED or name in _NAMED_IN:
                continue
            if not is_distinctive or member not in used:
                missing.append(name)
    assert sorted(missing) == []


def test_named_tests_use_their_member() -> None:
    known = set(public_members())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for name, place in _NAMED_IN.items():
        owner, _, member = name.partition(".")
        file, _, function = place.partition("::")
        assert (owner, member) in known
        found = [node for node in module(file).body if isinstance(node, functions) and node.name == function]
        assert [member in attributes_in(node) for node in found] == [True], name


def test_listed_unused_members_exist() -> None:
    known = {owner for owner, _ in public_members()} | {f"{owner}.{member}" for owner, member in public_members()}
    assert set(_NOT_EXERCISED) <= known
