"""Policies against the contract's own document: requests made up from its schemas, answers held against them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakebed.wire.polaris.operations import polaris_routes
from tests.fixtures.server import running_server

if TYPE_CHECKING:
    from .contract import PolicyContract

FOLDER: Final = Path(
    os.environ.get("POLARIS_CONTRACT") or Path(__file__).parents[4] / "shared" / "reference" / "openapi" / "polaris"
)
"""Apache Polaris's description of its protocol, which this repository has no copy of."""

OPERATIONS: Final = [route.name for route in polaris_routes().routes if route.is_standard]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(
        not (FOLDER / "polaris-catalog-apis" / "policy-apis.yaml").is_file(),
        reason=f"{FOLDER} has no policy-apis.yaml; POLARIS_CONTRACT may name the folder of Polaris's specification",
    ),
]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyContract]:
    """The document and a server of its own."""
    # Here: the rest of this folder is collected faster without its libraries.
    from .contract import PolicyContract, policy_document

    with running_server(tmp_path_factory.mktemp("contract") / "data") as server:
        held = PolicyContract(policy_document(FOLDER), server)
        yield held
        held.close()
        log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_that_the_contract_describes(name: str, contract: PolicyContract) -> None:
    _hold(contract, name, 12, is_random=False)


@pytest.mark.heavy
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_more_answers_are_those_that_the_contract_describes(name: str, contract: PolicyContract) -> None:
    _hold(contract, name, 150, is_random=True)


def _hold(contract: PolicyContract, name: str, examples: int, *, is_random: bool) -> None:
    from schemathesis import GenerationMode

    wanted = contract.hold(name, GenerationMode.POSITIVE, examples, is_random=is_random)
    contract.hold(name, GenerationMode.NEGATIVE, examples, is_random=is_random)
    # Else nothing but the first check was tried.
    assert any(status < 300 for status in wanted), wanted
