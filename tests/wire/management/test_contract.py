"""Users, roles and grants against the contract's own document: requests made up from its schemas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.wire.management.operations import management_mount
from tests.fixtures.server import running_server

if TYPE_CHECKING:
    from .contract import ManagementContract

FOLDER: Final = Path(
    os.environ.get("POLARIS_CONTRACT") or Path(__file__).parents[4] / "shared" / "reference" / "openapi" / "polaris"
)
"""Apache Polaris's description of its protocol, which this repository has no copy of."""

DOCUMENT: Final = FOLDER / "polaris-management-service.yml"
OPERATIONS: Final = [route.name for route in management_mount().routes.routes]
WITHOUT_PARAMETERS: Final = ("listPrincipals", "listPrincipalRoles", "listCatalogs")
"""There is nothing in them that could be wrong."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not DOCUMENT.is_file(), reason=f"{DOCUMENT} is not there; POLARIS_CONTRACT may name the folder that has it"
    ),
]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementContract]:
    """The document and a server of its own."""
    # Here: the rest of this folder is collected faster without its libraries.
    from tests.wire.iceberg.contract import read_document

    from .contract import ManagementContract

    with running_server(tmp_path_factory.mktemp("contract") / "data") as server:
        held = ManagementContract(read_document(DOCUMENT), server)
        yield held
        held.close()
        log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def test_all_of_it_is_served() -> None:
    from tests.wire.iceberg.contract import read_document

    described = {
        operation["operationId"]
        for operations in read_document(DOCUMENT)["paths"].values()
        for method, operation in operations.items()
        if method != "parameters"
    }
    assert described == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_that_the_contract_describes(name: str, contract: ManagementContract) -> None:
    _hold(contract, name, 12, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_answers_are_those_that_the_contract_describes(name: str, contract: ManagementContract) -> None:
    _hold(contract, name, 150, is_random=True)


def _hold(contract: ManagementContract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    wanted = contract.hold(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    if name not in WITHOUT_PARAMETERS:
        contract.hold(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Else nothing but the first check was tried.
    assert any(status < 300 for status in wanted), wanted
