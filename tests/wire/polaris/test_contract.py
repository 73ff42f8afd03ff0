"""Policies and generic tables against their OpenAPI specifications, with generated requests."""

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
"""The OpenAPI specifications of Apache Polaris, which are not in this repository."""

PARTS: Final = FOLDER / "polaris-catalog-apis"
OPERATIONS: Final = [route.name for route in polaris_routes().routes if route.is_standard]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not (PARTS / "policy-apis.yaml").is_file() or not (PARTS / "generic-tables-api.yaml").is_file(),
        reason=f"{PARTS} not found; set POLARIS_CONTRACT to the folder of the specifications",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for these tests."""
    with running_server(tmp_path_factory.mktemp("contract") / "data") as running:
        yield running
        log = running.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@pytest.fixture(scope="module")
def contracts(server: RunningServer) -> Iterator[dict[str, Contract]]:
    """The specification of each operation."""
    # Imported here, so that collecting other tests does not load the libraries.
    from .contract import GenericTableContract, PolicyContract, part_document

    policies = PolicyContract(part_document(FOLDER, "policy-apis.yaml"), server)
    generic_tables = GenericTableContract(part_document(FOLDER, "generic-tables-api.yaml"), server)
    yield {name: generic_tables if "GenericTable" in name else policies for name in OPERATIONS}
    policies.close()
    generic_tables.close()


@pytest.mark.parametrize("name", OPERATIONS)
def test_responses_conform_to_the_specification(name: str, contracts: dict[str, Contract]) -> None:
    _check(contracts[name], name, 12, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_responses_conform_to_the_specification(name: str, contracts: dict[str, Contract]) -> None:
    _check(contracts[name], name, 150, is_random=True)


def _check(contract: Contract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    statuses = contract.check(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    contract.check(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Without a success, only the checks of errors were tried.
    assert any(status < 300 for status in statuses), statuses
