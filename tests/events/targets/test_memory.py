from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.targets.memory import Mailbox, MemoryTarget
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.memory import MemoryService


class TestMemoryTarget(TargetContract):
    @pytest.fixture
    def service(self, tmp_path: Path) -> MemoryService:
        return MemoryService(tmp_path)


async def test_what_the_seam_rules_out_is_noticed() -> None:
    box = Mailbox()
    target = MemoryTarget(box)
    box.under_way.add("bucket/key")
    with pytest.raises(RuntimeError, match="two messages of one key"):
        await target.send(make_message("bucket/key"))
    box.under_way.update({"b/3", "b/4", "b/5"})
    with pytest.raises(RuntimeError, match="more messages are under way"):
        await target.send(make_message("b/2"))
    await target.close()
    with pytest.raises(Unavailable, match="closed"):
        await target.send(make_message("b/2"))
