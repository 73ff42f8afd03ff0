from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts.targets import TargetContract
from tests.fixtures.brokers.pulsar import PulsarService, running_pulsar

# In one process: two of these servers at the same time overload two cores.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy, pytest.mark.xdist_group("pulsar")]


@pytest.fixture(scope="module")
def service() -> Iterator[PulsarService]:
    with running_pulsar() as service:
        yield service


class TestPulsar(TargetContract):
    """The contract."""
