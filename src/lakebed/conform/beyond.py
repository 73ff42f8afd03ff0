"""What other table stores say they do not do, item by item, and which tests show that this one does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from .claims import Claim, Standing, judge
from .evidence import Evidence

_CLIENTS: Final = "tests/clients/iceberg"
_VENDED: Final = "tests/clients/test_pyiceberg_vended_keys.py"
_TABLES: Final = "tests/tables"


class Reach(StrEnum):
    """How much of an item is shown."""

    EXCEEDED = "exceeded"
    PARTLY = "partly"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Item:
    """A limit of others, and the claims that together go beyond it."""

    number: int
    limit: str
    claims: tuple[Claim, ...]


ITEMS: Final = (
    Item(
        1,
        "the first table needs long-term keys to the data",
        (
            Claim(
                "a table is created, written and read with rights to tables and none in S3",
                (f"{_VENDED}::test_tables_are_made_written_and_read_with_keys_of_the_catalog",),
            ),
            Claim(
                "a staged table is written before its first commit with keys of the catalog",
                (f"{_VENDED}::test_staged_table_is_written_before_it_is_committed",),
            ),
        ),
    ),
    Item(
        2,
        "maintenance is not scheduled continuously in the server",
        (
            Claim("jobs are scheduled", (f"{_TABLES}/maintenance/test_scheduling.py",)),
            Claim("a running server does so by itself", ("tests/server/test_*maintenance*.py",)),
        ),
    ),
    Item(
        3,
        "no sort compaction, row-level compaction or rewrite of delete files",
        (
            Claim("sort compaction", ("tests/pipeline/*compact*::*sort*",)),
            Claim("row-level compaction", ("tests/pipeline/*compact*::*row*",)),
            Claim("delete files are rewritten", ("tests/pipeline/*compact*::*delete*",)),
        ),
    ),
    Item(
        4,
        "no background expiration of snapshots, no cleanup tied to it",
        (
            Claim("snapshots are expired by plan", (f"{_TABLES}/maintenance/test_expiration.py",)),
            Claim("expiration runs in the background", ("tests/server/test_*maintenance*.py::*expir*",)),
            Claim("manifests and data files are removed", (f"{_TABLES}/maintenance/test_removal.py",)),
        ),
    ),
    Item(
        5,
        "row-level SQL of engines is not covered end to end",
        (
            Claim(
                "Spark: DELETE, UPDATE and MERGE",
                (f"{_CLIENTS}/test_spark_writes.py::test_rows_are_deleted_updated_and_merged",),
            ),
            Claim(
                "DuckDB: DELETE, UPDATE and MERGE",
                (f"{_CLIENTS}/test_duckdb.py::test_rows_are_updated_deleted_and_merged",),
            ),
            Claim("Trino: DELETE, UPDATE and MERGE", (f"{_CLIENTS}/test_trino*.py::*merge*",)),
        ),
    ),
    Item(
        6,
        "other catalogs are not polled, their policies not mirrored",
        (
            Claim("another catalog is polled", (f"{_TABLES}/bridges/test_polling.py",)),
            Claim("policies of another catalog are mirrored"),
        ),
    ),
    Item(
        7,
        "a transaction is of one table",
        (
            Claim(
                "several tables are committed together or not at all",
                (f"{_TABLES}/test_committing.py::test_tables_change_all_or_none",),
            ),
            Claim(
                "a transaction that met another is tried again",
                (f"{_TABLES}/test_committing.py::test_transaction_is_tried_again_when_one_of_its_tables_moved",),
            ),
            Claim(
                "a client changes several tables together",
                (f"{_CLIENTS}/test_duckdb.py::test_tables_are_changed_together",),
            ),
        ),
    ),
    Item(8, "one region writes", (Claim("regions write side by side"),)),
    Item(
        9,
        "PyIceberg alone is automated; engines read, or are tried by hand",
        (
            Claim("Spark", (f"{_CLIENTS}/test_spark*.py",)),
            Claim("Trino writes", (f"{_CLIENTS}/test_trino*.py::*writ*",)),
            Claim("DuckDB writes", (f"{_CLIENTS}/test_duckdb.py::test_rows_are_inserted_and_read",)),
            Claim("StarRocks writes", (f"{_CLIENTS}/test_starrocks*.py",)),
            Claim("Databend as a client of the REST catalog", (f"{_CLIENTS}/test_databend*.py",)),
            Claim("Snowflake", (f"{_CLIENTS}/test_snowflake*.py",)),
        ),
    ),
    Item(
        10,
        "no parity with the control planes of AWS, AIStor, R2 and OSS",
        (
            Claim("the control plane of AWS S3 Tables"),
            Claim("the private extensions of AIStor"),
            Claim("interoperability with R2 and OSS"),
        ),
    ),
    Item(
        11,
        "no SQL of its own, no Delta or Hudi",
        (Claim("SQL over objects", ("tests/select/test_*.py",)), Claim("Delta"), Claim("Hudi")),
    ),
    Item(
        12,
        "no Idempotency-Key header",
        (
            Claim("a repeated change gets the first one's answer", (f"{_TABLES}/test_idempotency.py",)),
            Claim("the header and its lifetime are served", ("tests/*/iceberg/test_*idempoten*.py",)),
        ),
    ),
    Item(
        13,
        "known features answered with 406",
        (
            Claim(
                "staged create",
                (f"{_CLIENTS}/test_pyiceberg_creating.py::test_staged_table_is_there_with_its_first_commit",),
            ),
            Claim(
                "register with overwrite",
                (f"{_CLIENTS}/test_pyiceberg_tables.py::test_register_with_overwrite_sets_a_table_back",),
            ),
            Claim("purge", (f"{_CLIENTS}/test_pyiceberg_tables.py::test_purged_table_has_no_files",)),
            Claim(
                "format v3",
                (f"{_CLIENTS}/test_pyiceberg_v3.py::test_table_of_the_third_format_is_made_and_loaded",),
            ),
            Claim(
                "encryption keys",
                (f"{_TABLES}/metadata/test_builder.py::test_encryption_keys_are_added_once_and_removed",),
            ),
            Claim(
                "rename",
                (f"{_CLIENTS}/test_pyiceberg_tables.py::test_renamed_table_keeps_rows_files_and_identity",),
            ),
            Claim(
                "namespace properties",
                (f"{_CLIENTS}/test_pyiceberg_namespaces.py::test_properties_are_set_removed_and_reported",),
            ),
        ),
    ),
)


def beyond(evidence: Evidence) -> list[dict[str, Any]]:  # Any: JSON
    """Each item, how much of it is shown, and by which tests."""
    entries = []
    for item in ITEMS:
        verdicts = [judge(claim, evidence) for claim in item.claims]
        shown = [verdict.standing is Standing.SHOWN for verdict in verdicts]
        reach = Reach.EXCEEDED if all(shown) else Reach.PARTLY if any(shown) else Reach.NOT
        entries.append(
            {
                "item": item.number,
                "limit_of_others": item.limit,
                "status": reach.value,
                "claims": [verdict.described() for verdict in verdicts],
            }
        )
    return entries
