from __future__ import annotations

import pytest

from lakebed.events.targets.memory import Mailbox, MemorySettings, MemoryTarget, memory_kind

from .basics import TargetContract, a_message


class MemoryBench:
    """A box."""

    def __init__(self) -> None:
        self._boxes: dict[str, Mailbox] = {}
        self._kind = memory_kind(self._boxes)

    def make(self) -> MemoryTarget:
        made = self._kind.make(MemorySettings(place="p"))
        assert isinstance(made, MemoryTarget)
        return made

    async def received(self, at_least: int) -> list[bytes]:
        got = self._boxes["p"].got
        assert len(got) >= at_least
        return [message.body for message in got]

    async def stop(self) -> None:
        self._boxes["p"].is_down = True

    async def start(self) -> None:
        self._boxes["p"].is_down = False


class TestMemoryTarget(TargetContract):
    @pytest.fixture
    def bench(self) -> MemoryBench:
        return MemoryBench()


async def test_what_the_seam_rules_out_is_noticed() -> None:
    box = Mailbox()
    target = MemoryTarget(box)
    box.under_way.add("bucket/key")
    with pytest.raises(RuntimeError, match="two messages of one key"):
        await target.send(a_message())
    box.under_way.update({"b/3", "b/4", "b/5"})
    with pytest.raises(RuntimeError, match="more messages are under way"):
        await target.send(a_message(2, "b/2"))
    await target.close()
    with pytest.raises(RuntimeError, match="closed"):
        await target.send(a_message(2, "b/2"))
