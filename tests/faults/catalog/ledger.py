"""What a client of the catalog knows: how its tables are, and every change it made, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .appends import Head
from .wire import Call


class Name(NamedTuple):
    """A table by name."""

    namespace: str
    table: str


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table that only one client writes to."""

    location: str
    """No two tables have one location, so it tells a table from another that had its name."""
    snapshots: tuple[int, ...] = ()
    mark: str = ""
    """A property that changes with each change of properties."""
    generation: int = field(default=1, compare=False)
    head: Head = field(default=Head(""), compare=False, repr=False)


class SharedMark(NamedTuple):
    """A property of a shared table that only one client changes."""

    table: str


class SharedLog(NamedTuple):
    """The snapshots of one client in a table that all append to."""

    table: str


Subject = Name | SharedMark | SharedLog
"""What a change is about, and what can be looked at to know whether it happened."""

State = OwnTable | str | frozenset[int] | None
"""How a subject is: a table or none, a mark, or a set of snapshots."""


class Change(NamedTuple):
    """One committed change, as its event tells it."""

    kind: str
    namespace: str
    table: str
    generation: int = 0
    """None is told for shared tables: the others count too."""
    snapshot: int = 0
    renamed_from: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A request for a change: all of `after` comes about, or none of it."""

    call: Call
    after: Mapping[Subject, State]
    changes: Sequence[Change]


@dataclass(slots=True)
class Ledger:
    """One client's knowledge."""

    known: dict[Subject, State] = field(default_factory=dict)
    journal: list[Change] = field(default_factory=list)
    pending: Step | None = None
    last: Step | None = None
    """The newest change, if it has a key and nothing was changed since: sent again, it changes nothing."""
    acknowledged: int = 0
    repeated: int = 0
    """Requests that were sent again under their key."""
    happened: int = 0
    """Changes without an answer that had happened."""
    vanished: int = 0
    """Changes without an answer that had not."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Kinds of both."""

    def begin(self, step: Step) -> None:
        assert self.pending is None, "a client has one request under way"
        self.pending = step

    def confirm(self) -> None:
        """The server acknowledged what was pending."""
        self.acknowledged += 1
        self._apply()

    def refuse(self) -> None:
        """The server answered that nothing happened."""
        self.pending = None

    def note(self, *, happened: bool) -> None:
        """It was found out what became of a request without an answer."""
        assert self.pending is not None
        self.unanswered["+".join(sorted({change.kind for change in self.pending.changes}))] += 1
        if happened:
            self.happened += 1
        else:
            self.vanished += 1

    def settle(self, *, happened: bool) -> None:
        """Go on from there."""
        if happened:
            self._apply()
        else:
            self.pending = None

    def own(self, table: Name) -> OwnTable | None:
        """A table of its own."""
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


def grown(table: OwnTable, *, head: Head | None = None, mark: str | None = None) -> OwnTable:
    """A table after a commit."""
    return replace(
        table,
        snapshots=table.snapshots if head is None or head.snapshot is None else (*table.snapshots, head.snapshot),
        mark=table.mark if mark is None else mark,
        generation=table.generation + 1,
        head=table.head if head is None else head,
    )
