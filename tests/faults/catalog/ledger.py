"""The expected state of a client's tables, and its changes in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .appends import Head
from .wire import Call


class Name(NamedTuple):
    """The name of a table."""

    namespace: str
    table: str


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table that only one client writes to."""

    location: str
    """Unique, so it distinguishes tables that had the same name."""
    snapshots: tuple[int, ...] = ()
    mark: str = ""
    """A property that every property change sets."""
    generation: int = field(default=1, compare=False)
    head: Head = field(default=Head(""), compare=False, repr=False)


class SharedMark(NamedTuple):
    """A property of a shared table that only one client changes."""

    table: str


class SharedLog(NamedTuple):
    """The snapshots of one client in a table to which all clients append."""

    table: str


Subject = Name | SharedMark | SharedLog
"""The subject of a change, which shows whether the change happened."""

State = OwnTable | str | frozenset[int] | None
"""The state of a subject: a table or None, a mark, or a set of snapshots."""


class Change(NamedTuple):
    """A committed change, with the fields of its event."""

    kind: str
    namespace: str
    table: str
    generation: int = 0
    """0 for shared tables, which other clients commit to as well."""
    snapshot: int = 0
    renamed_from: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A requested change: `after` becomes the state completely, or not at all."""

    call: Call
    after: Mapping[Subject, State]
    changes: Sequence[Change]


@dataclass(slots=True)
class Ledger:
    """The expected state of one client."""

    known: dict[Subject, State] = field(default_factory=dict)
    journal: list[Change] = field(default_factory=list)
    pending: Step | None = None
    last: Step | None = None
    """The last change, if it has an idempotency key: repeating it changes nothing."""
    acknowledged: int = 0
    repeated: int = 0
    """Requests repeated with their key."""
    happened: int = 0
    """Changes without a response that had happened."""
    vanished: int = 0
    """Changes without a response that had not happened."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Kinds of changes without a response."""

    def begin(self, step: Step) -> None:
        assert self.pending is None, "a client has one request in flight"
        self.pending = step

    def confirm(self) -> None:
        """Apply the pending change, which the server acknowledged."""
        self.acknowledged += 1
        self._apply()

    def refuse(self) -> None:
        """Drop the pending change, which the server rejected."""
        self.pending = None

    def note(self, *, happened: bool) -> None:
        """Count the outcome of a request without a response."""
        assert self.pending is not None
        self.unanswered["+".join(sorted({change.kind for change in self.pending.changes}))] += 1
        if happened:
            self.happened += 1
        else:
            self.vanished += 1

    def settle(self, *, happened: bool) -> None:
        """Apply or drop the pending change."""
        if happened:
            self._apply()
        else:
            self.pending = None

    def own(self, table: Name) -> OwnTable | None:
        """The state of a table that only this client writes."""
        state = self.known[table]
        assert state is None or isinstance(state, OwnTable)
        return state

    def _apply(self) -> None:
        step = self.pending
        assert step is not None
        self.pending = None
        self.known.update(step.after)
        self.journal += step.changes
        self.last = step if step.call.key else None


def after_commit(table: OwnTable, *, head: Head | None = None, mark: str | None = None) -> OwnTable:
    """The table after another commit."""
    return replace(
        table,
        snapshots=table.snapshots if head is None or head.snapshot is None else (*table.snapshots, head.snapshot),
        mark=table.mark if mark is None else mark,
        generation=table.generation + 1,
        head=table.head if head is None else head,
    )
