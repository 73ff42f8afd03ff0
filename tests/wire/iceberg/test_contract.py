"""The catalog against the Iceberg REST OpenAPI specification, with generated valid and invalid requests.

No request crashes the server, and every response conforms to the specification of its operation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.wire.iceberg.operations import catalog_routes
from tests.fixtures.server import running_server

if TYPE_CHECKING:
    from .contract import Contract

DOCUMENT: Final = Path(
    os.environ.get("ICEBERG_CONTRACT")
    or Path(__file__).parents[4] / "shared" / "reference" / "openapi" / "iceberg-rest-catalog.yaml"
)
"""The OpenAPI specification of Apache Iceberg, which is not in this repository."""

OPERATIONS: Final = [
    route.name for route in catalog_routes().routes if route.is_standard and route.name != "sendNotification"
]
"""All standard operations except the one of Apache Polaris."""

REFUSES_ALL: Final = frozenset(
    {"registerTable", "registerView", "signRequest", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks"}
)
"""Operations that refuse all generated requests, because these must name existing files or plans."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not DOCUMENT.is_file(),
        reason=f"{DOCUMENT} not found; set ICEBERG_CONTRACT to the path of rest-catalog-open-api.yaml",
    ),
]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    """The specification and a server."""
    # Imported here, so that collecting other tests does not load the libraries.
    from .contract import Contract, read_document

    with running_server(tmp_path_factory.mktemp("contract") / "data") as server:
        contract = Contract(read_document(DOCUMENT), server)
        yield contract
        contract.close()
        log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@pytest.mark.parametrize("name", OPERATIONS)
def test_responses_conform_to_the_specification(name: str, contract: Contract) -> None:
    _check(contract, name, 6, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_responses_conform_to_the_specification(name: str, contract: Contract) -> None:
    _check(contract, name, 150, is_random=True)


def _check(contract: Contract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    statuses = contract.check(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    contract.check(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Without a success, only the checks of errors were tried.
    assert name in REFUSES_ALL or any(status < 300 for status in statuses), statuses
