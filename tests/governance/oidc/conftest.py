from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.governance import Principals
from lakebed.governance.oidc import ExternalIdentities
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from tests.governance.tokens.conftest import store

__all__ = ["store"]


@pytest.fixture
def identities(
    store: MetaStore,
    outbox: Outbox,
    principals: Principals,
    clock: ManualClock,
) -> ExternalIdentities:
    return ExternalIdentities(store, outbox, principals, clock)
