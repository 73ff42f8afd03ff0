"""Policies and generic tables against the contract's own documents: requests made up from their schemas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.wire.polaris.operations import polaris_routes
from tests.fixtures.server import RunningServer, running_server

if TYPE_CHECKING:
    from tests.wire.iceberg.contract import Contract

FOLDER: Final = Path(
    os.environ.get("POLARIS_CONTRACT") or Path(__file__).parents[4] / "shared" / "reference" / "openapi" / "polaris"
)
"""Apache Polaris's description of its protocol, which this repository has no copy of."""

PARTS: Final = FOLDER / "polaris-catalog-apis"
OPERATIONS: Final = [route.name for route in polaris_routes().routes if route.is_standard]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not (PARTS / "policy-apis.yaml").is_file() or not (PARTS / "generic-tables-api.yaml").is_file(),
        reason=f"{PARTS} has no contracts; POLARIS_CONTRACT may name the folder of Polaris's specification",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of its own."""
    with running_server(tmp_path_factory.mktemp("contract") / "data") as running:
        yield running
        log = running.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@pytest.fixture(scope="module")
def contracts(server: RunningServer) -> Iterator[dict[str, Contract]]:
    """The contract of each operation."""
    # Here: the rest of this folder is collected faster without its libraries.
    from .contract import GenericTableContract, PolicyContract, part_document

    policies = PolicyContract(part_document(FOLDER, "policy-apis.yaml"), server)
    generic_tables = GenericTableContract(part_document(FOLDER, "generic-tables-api.yaml"), server)
    yield {name: generic_tables if "GenericTable" in name else policies for name in OPERATIONS}
    policies.close()
    generic_tables.close()


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_that_the_contract_describes(name: str, contracts: dict[str, Contract]) -> None:
    _hold(contracts[name], name, 12, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_answers_are_those_that_the_contract_describes(name: str, contracts: dict[str, Contract]) -> None:
    _hold(contracts[name], name, 150, is_random=True)


def _hold(contract: Contract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    wanted = contract.hold(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    contract.hold(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Else nothing but the first check was tried.
    assert any(status < 300 for status in wanted), wanted
