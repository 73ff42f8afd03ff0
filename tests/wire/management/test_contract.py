"""The management API against its OpenAPI specification, with generated requests."""

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
"""The OpenAPI specifications of Apache Polaris, which are not in this repository."""

DOCUMENT: Final = FOLDER / "polaris-management-service.yml"
OPERATIONS: Final = [route.name for route in management_mount().routes.routes]
WITHOUT_PARAMETERS: Final = ("listPrincipals", "listPrincipalRoles", "listCatalogs")
"""Operations without parameters, for which no invalid request exists."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not DOCUMENT.is_file(), reason=f"{DOCUMENT} not found; set POLARIS_CONTRACT to the folder of the specifications"
    ),
]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementContract]:
    """The specification and a server."""
    # Imported here, so that collecting other tests does not load the libraries.
    from tests.wire.iceberg.contract import read_document

    from .contract import ManagementContract

    with running_server(tmp_path_factory.mktemp("contract") / "data") as server:
        contract = ManagementContract(read_document(DOCUMENT), server)
        yield contract
        contract.close()
        log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def test_all_operations_are_supported() -> None:
    from tests.wire.iceberg.contract import read_document

    described = {
        operation["operationId"]
        for operations in read_document(DOCUMENT)["paths"].values()
        for method, operation in operations.items()
        if method != "parameters"
    }
    assert described == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_responses_conform_to_the_specification(name: str, contract: ManagementContract) -> None:
    _check(contract, name, 12, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_responses_conform_to_the_specification(name: str, contract: ManagementContract) -> None:
    _check(contract, name, 150, is_random=True)


def _check(contract: ManagementContract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    statuses = contract.check(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    if name not in WITHOUT_PARAMETERS:
        contract.check(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Without a success, only the checks of errors were tried.
    assert any(status < 300 for status in statuses), statuses
