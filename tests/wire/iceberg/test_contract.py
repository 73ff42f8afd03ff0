"""The catalog against the contract's own document: requests made up from its schemas, answers held against them.

Whatever is sent, nothing crashes, and every answer is one that the contract describes for that operation. Requests are
drawn both as the schemas want them and as they do not.
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
"""Apache Iceberg's description of the protocol, which this repository has no copy of."""

OPERATIONS: Final = [
    route.name for route in catalog_routes().routes if route.is_standard and route.name != "sendNotification"
]
"""All but one, which is Apache Polaris'."""
REFUSES_ALL: Final = frozenset(
    {"registerTable", "registerView", "signRequest", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks"}
)
"""Operations that no made-up request satisfies: they name files, or requests to an object store."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not DOCUMENT.is_file(),
        reason=f"{DOCUMENT} is not there; ICEBERG_CONTRACT may name Iceberg's rest-catalog-open-api.yaml",
    ),
]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    """The document and a server of its own."""
    # Here: the rest of this folder is collected faster without its libraries.
    from .contract import Contract, read_document

    with running_server(tmp_path_factory.mktemp("contract") / "data") as server:
        held = Contract(read_document(DOCUMENT), server)
        yield held
        held.close()
        log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_that_the_contract_describes(name: str, contract: Contract) -> None:
    _hold(contract, name, 6, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_answers_are_those_that_the_contract_describes(name: str, contract: Contract) -> None:
    _hold(contract, name, 150, is_random=True)


def _hold(contract: Contract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    wanted = contract.check(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    contract.check(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Else nothing but the first check was tried.
    assert name in REFUSES_ALL or any(status < 300 for status in wanted), wanted
