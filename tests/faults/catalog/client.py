"""One client of the catalog's kill test: changes tables in every way there is, and knows what it was promised.

It asks one thing at a time. When an answer does not come it looks, on a new connection, what became of the request: all
of it or nothing. Then, if the request had an Idempotency-Key, it is sent again and must have happened once.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.faults.client import Finding
from tests.fixtures.server import RunningServer

from .appends import SCHEMA, Append, Head, Json, an_append, head_of, manifest_list_of
from .ledger import Change, Ledger, Name, OwnTable, SharedLog, SharedMark, State, Step, Subject, grown
from .wire import LAKE, Call, Wire, table_path, tables_path

SHARED: Final = "shared"
"""The namespace of the tables that all clients write to."""

PAIR: Final = ("left", "right")
LOG: Final = "log"
_TABLES: Final = 4
_MOST_SNAPSHOTS: Final = 12
_BROKEN: Final = (ConnectionError, TimeoutError, OSError)


class CatalogClient:
    """Changes and checks. `work` and `audit` each use a connection of their own."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.namespaces = (name, f"{name}x")
        self.conflicts = 0
        known: dict[Subject, State] = {Name(name, f"t{number}"): None for number in range(_TABLES)}
        known |= {Name(f"{name}x", f"t{number}"): None for number in range(_TABLES)}
        known |= {SharedMark(table): "" for table in PAIR}
        known |= {SharedLog(LOG): frozenset[int]()}
        self.ledger = Ledger(known)
        self._random = random
        self._count = 0
        self._open: Wire | None = None
        self._acts: Sequence[tuple[int, Callable[[], None]]] = (
            (14, self._create),
            (8, self._create_staged),
            (24, self._append),
            (10, self._set_mark),
            (18, self._change_many),
            (14, self._mark_pair),
            (5, self._append_to_log),
            (9, self._rename),
            (8, self._drop),
            (6, self._repeat),
        )

    def work(self, server: RunningServer, stop: threading.Event) -> None:
        """Change until told to stop or until the server is gone. Raises Finding."""
        weights, acts = zip(*self._acts, strict=True)
        while not stop.is_set():
            try:
                if self._open is None:
                    self._open = Wire(server.port)
                    self._resolve()
                self._random.choices(acts, weights)[0]()
            except ConnectionRefusedError:
                self._hang_up()
                return
            except _BROKEN:
                # A worker died, or all of them: the next connection tells.
                self._hang_up()
        self._hang_up()

    def audit(self, server: RunningServer) -> None:
        """Find out what became of the request under way, then compare what is there with what was promised."""
        self._open = Wire(server.port)
        try:
            self._resolve()
            if self._random.random() < 0.5:
                self._repeat()
            for subject, state in self.ledger.known.items():
                found = self._look(subject)
                if found != state:
                    raise Finding("lost", f"{subject} of {self.name} is {found}, promised was {state}")
            self._audit_listings()
            self._audit_files()
        except _BROKEN as error:
            raise Finding("wrong", f"an answer broke off while nobody was killed: {error!r}") from error
        finally:
            self._hang_up()

    # -- asking ---------------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> Wire:
        assert self._open is not None
        return self._open

    def _hang_up(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _change(self, call: Call, after: dict[Subject, State], *changes: Change) -> Json:
        """Ask for a change; if the answer does not come, it stays pending."""
        self.ledger.begin(Step(call, after, changes))
        reply = self._wire.call(call)
        if reply.status not in (200, 204):
            raise Finding("wrong", f"{call} was answered {reply}")
        self.ledger.confirm()
        return reply.document

    def _key(self) -> str:
        """A key, for two of three requests."""
        if self._random.random() < 0.34:
            return ""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _fresh(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _a_table(self) -> tuple[Name, OwnTable] | None:
        """One that is there, if there is one."""
        there = self._there()
        return self._random.choice(there) if there else None

    def _there(self) -> list[tuple[Name, OwnTable]]:
        return [
            (name, table)
            for name, table in self.ledger.known.items()
            if isinstance(name, Name) and isinstance(table, OwnTable)
        ]

    def _a_free_name(self) -> Name | None:
        free = [one for one, state in self.ledger.known.items() if isinstance(one, Name) and state is None]
        return self._random.choice(free) if free else None

    # -- acts -----------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        name = self._a_free_name()
        if name is None:
            return
        location = f"s3://{LAKE}/{self.name}/{self._fresh()}"
        document = {"name": name.table, "schema": SCHEMA, "location": location}
        self._change(
            Call("POST", tables_path(name.namespace), document, self._key()),
            {name: OwnTable(location, head=Head(location))},
            Change("TableCreated", *name, generation=1),
        )

    def _create_staged(self) -> None:
        """Create a table with its first rows in one commit."""
        name = self._a_free_name()
        if name is None:
            return
        location = f"s3://{LAKE}/{self.name}/{self._fresh()}"
        append = self._stored(an_append(Head(location), self._snapshot_id(), writer=self.name))
        updates = [
            {"action": "assign-uuid", "uuid": str(uuid.UUID(int=self._random.getrandbits(128), version=4))},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": location},
            *append.updates,
        ]
        document = {"requirements": [{"type": "assert-create"}], "updates": updates}
        snapshot = append.head.snapshot or 0
        self._change(
            Call("POST", table_path(*name), document, self._key()),
            {name: OwnTable(location, (snapshot,), head=append.head)},
            Change("TableCreated", *name, generation=1, snapshot=snapshot),
        )

    def _append(self) -> None:
        found = self._a_table()
        if found is None:
            return
        name, table = found
        if len(table.snapshots) >= _MOST_SNAPSHOTS:
            self._drop()
            return
        change, after = self._appended(table)
        self._change(Call("POST", table_path(*name), change, self._key()), {name: after}, self._committed(name, after))

    def _set_mark(self) -> None:
        found = self._a_table()
        if found is None:
            return
        name, table = found
        change, after = self._marked(table)
        self._change(Call("POST", table_path(*name), change, self._key()), {name: after}, self._committed(name, after))

    def _change_many(self) -> None:
        """Commit to several tables at once."""
        there = self._there()
        if len(there) < 2:
            return
        after: dict[Subject, State] = {}
        changes, told = [], []
        for name, table in self._random.sample(there, min(len(there), self._random.choice((2, 2, 3)))):
            change, new = (self._appended if self._random.random() < 0.5 else self._marked)(table)
            changes.append({"identifier": {"namespace": [name.namespace], "name": name.table}, **change})
            after[name] = new
            told.append(self._committed(name, new))
        self._change(Call("POST", f"{LAKE}/transactions/commit", {"table-changes": changes}, self._key()), after, *told)

    def _mark_pair(self) -> None:
        """Commit to both of two tables that the others change too."""
        mark = self._fresh()
        changes = [
            {
                "identifier": {"namespace": [SHARED], "name": table},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {f"mark.{self.name}": mark}}],
            }
            for table in PAIR
        ]
        call = Call("POST", f"{LAKE}/transactions/commit", {"table-changes": changes}, self._key())
        step = Step(
            call,
            {SharedMark(table): mark for table in PAIR},
            [Change("TableCommitted", SHARED, table) for table in PAIR],
        )
        self._contend(step)

    def _append_to_log(self) -> None:
        loaded = self._load(Name(SHARED, LOG))
        listing = manifest_list_of(loaded["metadata"])
        head = head_of(loaded["metadata"], None if listing is None else self._wire.get_file(listing))
        snapshot = self._snapshot_id()
        append = self._stored(an_append(head, snapshot, writer=self.name))
        log = SharedLog(LOG)
        mine = self.ledger.known[log]
        assert isinstance(mine, frozenset)
        document = {"requirements": append.requirements, "updates": append.updates}
        call = Call("POST", table_path(SHARED, LOG), document, self._key())
        self._contend(Step(call, {log: mine | {snapshot}}, [Change("TableCommitted", SHARED, LOG)]))

    def _contend(self, step: Step) -> None:
        """Ask for a change that others may keep from happening: then nothing of it has."""
        self.ledger.begin(step)
        reply = self._wire.call(step.call)
        if (reply.status, reply.kind) == (409, "CommitFailedException"):
            self.conflicts += 1
            self.ledger.refuse()
        elif reply.status in (200, 204):
            self.ledger.confirm()
        else:
            raise Finding("wrong", f"{step.call} was answered {reply}")

    def _rename(self) -> None:
        found, target = self._a_table(), self._a_free_name()
        if found is None or target is None:
            return
        name, table = found
        document = {
            part: {"namespace": [one.namespace], "name": one.table}
            for part, one in (("source", name), ("destination", target))
        }
        self._change(
            Call("POST", f"{LAKE}/tables/rename", document, self._key()),
            {name: None, target: table},
            Change("TableRenamed", *target, generation=table.generation, renamed_from=".".join(name)),
        )

    def _drop(self) -> None:
        found = self._a_table()
        if found is None:
            return
        name, table = found
        purge = self._random.random() < 0.3
        path = f"{table_path(*name)}?purgeRequested={'true' if purge else 'false'}"
        change = Change("TableDropped", *name, generation=table.generation)
        self._change(Call("DELETE", path, None, self._key()), {name: None}, change)

    def _repeat(self) -> None:
        """Send the newest request again: its answer is given again, and nothing changes."""
        step = self.ledger.last
        if step is None:
            return
        self.ledger.repeated += 1
        reply = self._wire.call(step.call)
        if reply.status not in (200, 204):
            raise Finding("wrong", f"{step.call} was answered {reply} when it was sent again")

    # -- parts of acts --------------------------------------------------------------------------------------------

    def _snapshot_id(self) -> int:
        return self._random.getrandbits(62)

    def _stored(self, append: Append) -> Append:
        self._wire.put_files(append.files)
        return append

    def _appended(self, table: OwnTable) -> tuple[Json, OwnTable]:
        append = self._stored(an_append(table.head, self._snapshot_id(), writer=self.name))
        return {"requirements": append.requirements, "updates": append.updates}, grown(table, head=append.head)

    def _marked(self, table: OwnTable) -> tuple[Json, OwnTable]:
        # Sometimes long, so that the metadata file does not fit into a row.
        mark = self._fresh() + "." * self._random.choice((0, 0, 6000))
        updates = [{"action": "set-properties", "updates": {"mark": mark}}]
        return {"requirements": [], "updates": updates}, grown(table, mark=mark)

    def _committed(self, name: Name, after: OwnTable) -> Change:
        return Change("TableCommitted", *name, generation=after.generation, snapshot=after.head.snapshot or 0)

    # -- looking --------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Find out what became of the request whose answer never came."""
        step = self.ledger.pending
        if step is None:
            return
        found = {subject: self._look(subject) for subject in step.after}
        before = {subject: self.ledger.known[subject] for subject in step.after}
        happened = found == step.after
        if not happened and found != before:
            some = any(found[one] == step.after[one] for one in found if before[one] != step.after[one])
            raise Finding("torn" if some else "lost", f"{step} on {before} left {found}")
        self.ledger.note(happened=happened)
        if step.call.key:
            happened = self._send_again(step, happened=happened)
        self.ledger.settle(happened=happened)

    def _send_again(self, step: Step, *, happened: bool) -> bool:
        """A key makes a request good again after a crash, whether or not it had happened; whether it has now."""
        self.ledger.repeated += 1
        reply = self._wire.call(step.call)
        is_shared = not any(isinstance(subject, Name) for subject in step.after)
        if is_shared and not happened and reply.status == 409:
            return False
        if reply.status not in (200, 204):
            raise Finding("wrong", f"{step.call} was answered {reply} after a crash. happened={happened}")
        for subject, state in step.after.items():
            if (found := self._look(subject)) != state:
                raise Finding("wrong", f"{step.call} sent again left {subject} as {found} instead of {state}")
        return True

    def _load(self, name: Name) -> Json:
        loaded = self._wire.load(*name)
        if loaded is None:
            raise Finding("lost", f"no table {name}")
        return loaded

    def _look(self, subject: Subject) -> State:
        if isinstance(subject, SharedMark):
            properties = self._load(Name(SHARED, subject.table))["metadata"].get("properties", {})
            return str(properties.get(f"mark.{self.name}", ""))
        if isinstance(subject, SharedLog):
            snapshots = self._load(Name(SHARED, subject.table))["metadata"].get("snapshots", [])
            return frozenset(one["snapshot-id"] for one in snapshots if one["summary"]["writer"] == self.name)
        loaded = self._wire.load(*subject)
        if loaded is None:
            return None
        metadata = loaded["metadata"]
        snapshots = sorted(metadata.get("snapshots", []), key=lambda one: int(one["sequence-number"]))
        mark = str(metadata.get("properties", {}).get("mark", ""))
        return OwnTable(metadata["location"], tuple(one["snapshot-id"] for one in snapshots), mark)

    def _audit_listings(self) -> None:
        for namespace in self.namespaces:
            reply = self._wire.ask("GET", tables_path(namespace))
            listed = {one["name"] for one in reply.document["identifiers"]}
            promised = {name.table for name, _ in self._there() if name.namespace == namespace}
            if listed != promised:
                raise Finding("lost", f"the tables of {namespace} are {listed}, promised were {promised}")

    def _audit_files(self) -> None:
        """Every pointer leads to its file, and that to the files of the newest snapshot."""
        for name, _ in self._there():
            loaded = self._load(name)
            at = loaded["metadata-location"]
            document = self._wire.get_file(at)
            if document is None:
                raise Finding("dangling", f"{name} points to {at}, where nothing is")
            if json.loads(document) != loaded["metadata"]:
                raise Finding("wrong", f"{name} is shown with other metadata than {at} holds")
            listing = manifest_list_of(loaded["metadata"])
            if listing is None:
                continue
            lines = self._wire.get_file(listing)
            if lines is None:
                raise Finding("dangling", f"{name} names {listing}, where nothing is")
            for line in head_of(loaded["metadata"], lines).manifests:
                if self._wire.get_file(line.path) is None:
                    raise Finding("dangling", f"{name} names {line.path}, where nothing is")
