from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.operations import Operation, OperationFamily, parse_operations

COUNTS = {
    OperationFamily.CATALOG: 5,
    OperationFamily.CATALOG_ROLE: 9,
    OperationFamily.PRINCIPAL: 10,
    OperationFamily.PRINCIPAL_ROLE: 9,
    OperationFamily.NAMESPACE: 6,
    OperationFamily.TABLE: 9,
    OperationFamily.VIEW: 9,
    OperationFamily.CREDENTIAL: 1,
    OperationFamily.TRANSACTION: 1,
    OperationFamily.NOTIFICATION: 1,
    OperationFamily.CONFIG: 1,
    OperationFamily.POLICY: 8,
    OperationFamily.GENERIC_TABLE: 4,
    OperationFamily.TASK_EXECUTION: 1,
    OperationFamily.RATE_LIMITING: 1,
}
"""Number of operations by family, as in the reference."""


def test_every_family_has_its_operations() -> None:
    found = {family: sum(operation.family is family for operation in Operation) for family in OperationFamily}
    assert found == COUNTS


@pytest.mark.parametrize(
    ("operation", "family"),
    [
        (Operation.LIST_GRANTS_FOR_CATALOG_ROLE, OperationFamily.CATALOG_ROLE),
        (Operation.LIST_ASSIGNED_PRINCIPAL_ROLES, OperationFamily.PRINCIPAL),
        (Operation.REFRESH_TABLE, OperationFamily.TABLE),
        (Operation.REGISTER_VIEW, OperationFamily.VIEW),
        (Operation.GET_APPLICABLE_POLICIES, OperationFamily.POLICY),
        (Operation.LOAD_GENERIC_TABLE, OperationFamily.GENERIC_TABLE),
    ],
)
def test_last_operation_of_a_family_belongs_to_it(operation: Operation, family: OperationFamily) -> None:
    assert operation.family is family


def test_operations_have_names_before_and_after() -> None:
    assert Operation.DROP_TABLE.before == "BEFORE_DROP_TABLE"
    assert Operation.DROP_TABLE.after == "AFTER_DROP_TABLE"


@pytest.mark.parametrize("operation", Operation)
def test_read_only_operations_are_recognized_by_name(operation: Operation) -> None:
    changes = {"CREATE", "DELETE", "UPDATE", "DROP", "ADD", "REVOKE", "ASSIGN", "ROTATE", "RESET", "REGISTER"}
    changes |= {"RENAME", "REFRESH", "REPLACE", "COMMIT", "SEND", "ATTACH", "DETACH", "ATTEMPT", "LIMIT"}
    assert operation.only_reads is (operation.value.partition("_")[0] not in changes)


@given(st.sets(st.sampled_from(Operation)))
def test_operation_names_match_exactly(operations: set[Operation]) -> None:
    assert parse_operations([operation.value for operation in operations]) == operations
    assert parse_operations([operation.before for operation in operations]) == operations


def test_prefixes_and_families_match() -> None:
    assert parse_operations(["*"]) == frozenset(Operation)
    assert parse_operations(["drop_*"]) == {one for one in Operation if one.value.startswith("DROP_")}
    assert parse_operations(["POLICY"]) == {one for one in Operation if one.family is OperationFamily.POLICY}
    assert parse_operations([]) == frozenset()


@pytest.mark.parametrize("word", ["", "DROP_TABLES", "DROP", "NOPE_*", "AFTER_DROP_TABLE"])
def test_unknown_operation_pattern_is_rejected(word: str) -> None:
    with pytest.raises(InvalidInput, match="unknown operation"):
        parse_operations([word])
