"""Cluster configs: values from the start of the server, and values altered since, which take precedence.

Configs that are read at every use can be altered while the server runs; the others are shown as the server was started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import milliseconds, whole_number
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.objects.model import Caller

from .authorization import StreamAuthorizer, StreamOperation
from .events import append_event
from .schema_evolution import OptionChange, changed_options

__all__ = ["DYNAMIC", "INITIAL", "ClusterConfig", "ClusterConfigs"]

DYNAMIC: Final = "DYNAMIC_SERVER_CONFIG"
INITIAL: Final = "INITIAL_SERVER_CONFIG"

_ALL: Final = "SELECT name, value FROM stream_configs ORDER BY name"
_ONE: Final = "SELECT value FROM stream_configs WHERE name = ?"
_SET: Final = """
INSERT INTO stream_configs (name, value, set_ms) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, set_ms = excluded.set_ms
"""
_UNSET: Final = "DELETE FROM stream_configs WHERE name = ?"


class _Setting(NamedTuple):
    default: str
    read: Callable[[str], int]
    least: int
    most: int


_SETTINGS: Final[Mapping[str, _Setting]] = {
    "default.bucket.number": _Setting("1", whole_number, 1, 4096),
    "max.bucket.num": _Setting("4096", whole_number, 1, 65_536),
    "max.partition.num": _Setting("1000", whole_number, 1, 1_000_000),
    "auto-partition.check.interval": _Setting("10min", milliseconds, 1_000, 86_400_000),
    "coordinator.producer-offsets.ttl": _Setting("24h", milliseconds, 1, 366 * 86_400_000),
}
"""Configs that can be altered while the server runs."""


class ClusterConfig(NamedTuple):
    """One config."""

    name: str
    value: str
    source: str


class ClusterConfigs:
    """Describes and alters cluster configs."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        initial: Mapping[str, str] | None = None,
    ) -> None:
        """`initial` has the values from the start of the server."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._initial = {name: setting.default for name, setting in _SETTINGS.items()} | dict(initial or {})

    async def number(self, name: str) -> int:
        """The current value of a config: a number, or a duration in milliseconds."""
        row = await self._meta.row(_ONE, name)
        return _SETTINGS[name].read(self._initial[name] if row is None else row[0])

    async def describe(self, caller: Caller) -> Sequence[ClusterConfig]:
        """All configs, by name."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        dynamic = await _altered(self._meta)
        found = {name: ClusterConfig(name, value, INITIAL) for name, value in self._initial.items()}
        found |= {name: ClusterConfig(name, value, DYNAMIC) for name, value in dynamic.items()}
        return [found[name] for name in sorted(found)]

    async def alter(self, caller: Caller, changes: Sequence[OptionChange]) -> None:
        """Alter configs, all or nothing. Error codes: CONFIG for one that is fixed, INVALID_CONFIG for a value."""
        await self._authorizer.authorize(caller, StreamOperation.ALTER)
        for change in changes:
            if change.name not in _SETTINGS:
                known = "set at the start of the server" if change.name in self._initial else "no such config"
                raise FlussError(ErrorCode.CONFIG, f"config cannot be altered: {known}. config={change.name}")
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            before = await _altered(tx)
            try:
                after = changed_options(before, changes)
            except FlussError as failure:
                raise FlussError(ErrorCode.CONFIG, str(failure)) from failure
            for name, value in after.items():
                _check(name, value)
                if before.get(name) != value:
                    await tx.run(_SET, name, value, now_ms)
            for name in before.keys() - after.keys():
                await tx.run(_UNSET, name)
            if after != before:
                details = {change.name: after.get(change.name, "") for change in changes}
                await append_event(self._outbox, tx, "StreamConfigAltered", caller, now_ms, "", facts=details)

        await self._meta.transact(work)


async def _altered(reader: Reader) -> dict[str, str]:
    return {str(name): str(value) for name, value in await reader.rows(_ALL)}


def _check(name: str, value: str) -> None:
    setting = _SETTINGS[name]
    if not setting.least <= setting.read(value) <= setting.most:
        raise FlussError(
            ErrorCode.INVALID_CONFIG, f"expected {setting.least} to {setting.most}. config={name} value={value}"
        )
