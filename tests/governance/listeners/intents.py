"""Intents, and a listener that records them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakebed.core.operations import Operation, parse_operations
from lakebed.governance.listeners import Intent


def an_intent(operation: Operation = Operation.DROP_TABLE, **more: Any) -> Intent:
    """An intent to drop a table, with changes."""
    properties: dict[str, Any] = {
        "event_id": "e1",
        "occurred_ms": 1_700_000_000_000,
        "principal": "anna",
        "principal_arn": "arn:aws:iam::000000000000:user/anna",
        "request_id": "R1",
        "source_ip": "127.0.0.1",
        "catalog": "lake",
        "namespace": ("sales",),
        "name": "orders",
    }
    return Intent(operation=operation, **{**properties, **more})


class RecordingListener:
    """Records intents, and vetoes those in `vetoes`."""

    def __init__(self, *operations: str, name: str = "guard", vetoes: Iterable[str] = ()) -> None:
        self.name = name
        self.operations = parse_operations(operations or ("*",))
        self.vetoes = set(vetoes)
        """Operations or subjects."""
        self.intents: list[Intent] = []

    async def before(self, intent: Intent) -> str | None:
        self.intents.append(intent)
        if intent.operation.value in self.vetoes or intent.subject in self.vetoes:
            return f"{intent.subject or 'it'} is frozen"
        return None

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Operations and subjects, in order."""
        return [(intent.operation.value, intent.subject) for intent in self.intents]
