"""A client of the catalog's kill test: changes tables in all ways, and records what the server acknowledged.

It sends one request at a time. If a response is lost, it checks on a new connection that the request happened
completely or not at all. A request with an Idempotency-Key is then repeated, and must have happened once.
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

from .appends import SCHEMA, Append, Head, Json, head_of, manifest_list_of, prepare_append
from .ledger import Change, Ledger, Name, OwnTable, SharedLog, SharedMark, State, Step, Subject, after_commit
from .wire import LAKE, Call, Wire, table_path, tables_path

SHARED: Final = "shared"
"""The namespace of the tables that all clients write to."""

PAIR: Final = ("left", "right")
LOG: Final = "log"
_TABLES: Final = 4
_MOST_SNAPSHOTS: Final = 12
_BROKEN: Final = (ConnectionError, TimeoutError, OSError)


class CatalogClient:
    """Changes and checks. `work` and `audit` use separate connections."""

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
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
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
        """Change tables until `stop` is set or the server is gone. Raises Finding."""
        weights, actions = zip(*self._actions, strict=True)
        while not stop.is_set():
            try:
                if self._open is None:
                    self._open = Wire(server.port)
                    self._resolve()
                self._random.choices(actions, weights)[0]()
            except ConnectionRefusedError:
                self._disconnect()
                return
            except _BROKEN:
                # One worker or all of them died: the next connection shows which.
                self._disconnect()
        self._disconnect()

    def audit(self, server: RunningServer) -> None:
        """Resolve the pending request, then compare the stored state with the acknowledged one."""
        self._open = Wire(server.port)
        try:
            self._resolve()
            if self._random.random() < 0.5:
                self._repeat()
            for subject, state in self.ledger.known.items():
                found = self._state_of(subject)
                if found != state:
                    raise Finding("lost", f"{subject} of {self.name} is {found}, acknowledged was {state}")
            self._audit_listings()
            self._audit_files()
        except _BROKEN as error:
            raise Finding("wrong", f"a response broke off without a kill: {error!r}") from error
        finally:
            self._disconnect()

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def _wire(self) -> Wire:
        assert self._open is not None
        return self._open

    def _disconnect(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _change(self, call: Call, after: dict[Subject, State], *changes: Change) -> Json:
        """Request a change. It stays pending if the response is lost."""
        self.ledger.begin(Step(call, after, changes))
        reply = self._wire.call(call)
        if reply.status not in (200, 204):
            raise Finding("wrong", f"{call} returned {reply}")
        self.ledger.confirm()
        return reply.document

    def _key(self) -> str:
        """An idempotency key, for two of three requests."""
        if self._random.random() < 0.34:
            return ""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _new_name(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _random_table(self) -> tuple[Name, OwnTable] | None:
        """A random existing table, if any."""
        existing = self._existing()
        return self._random.choice(existing) if existing else None

    def _existing(self) -> list[tuple[Name, OwnTable]]:
        return [
            (name, table)
            for name, table in self.ledger.known.items()
            if isinstance(name, Name) and isinstance(table, OwnTable)
        ]

    def _unused_name(self) -> Name | None:
        free = [name for name, state in self.ledger.known.items() if isinstance(name, Name) and state is None]
        return self._random.choice(free) if free else None

    # -- actions --------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        name = self._unused_name()
        if name is None:
            return
        location = f"s3://{LAKE}/{self.name}/{self._new_name()}"
        document = {"name": name.table, "schema": SCHEMA, "location": location}
        self._change(
            Call("POST", tables_path(name.namespace), document, self._key()),
            {name: OwnTable(location, head=Head(location))},
            Change("TableCreated", *name, generation=1),
        )

    def _create_staged(self) -> None:
        """Create a table with its first rows in one commit."""
        name = self._unused_name()
        if name is None:
            return
        location = f"s3://{LAKE}/{self.name}/{self._new_name()}"
        append = self._upload(prepare_append(Head(location), self._snapshot_id(), writer=self.name))
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
        found = self._random_table()
        if found is None:
            return
        name, table = found
        if len(table.snapshots) >= _MOST_SNAPSHOTS:
            self._drop()
            return
        change, after = self._prepare_append(table)
        self._change(
            Call("POST", table_path(*name), change, self._key()), {name: after}, self._commit_event(name, after)
        )

    def _set_mark(self) -> None:
        found = self._random_table()
        if found is None:
            return
        name, table = found
        change, after = self._prepare_mark(table)
        self._change(
            Call("POST", table_path(*name), change, self._key()), {name: after}, self._commit_event(name, after)
        )

    def _change_many(self) -> None:
        """Commit to several tables at once."""
        existing = self._existing()
        if len(existing) < 2:
            return
        after: dict[Subject, State] = {}
        changes, events = [], []
        for name, table in self._random.sample(existing, min(len(existing), self._random.choice((2, 2, 3)))):
            change, new = (self._prepare_append if self._random.random() < 0.5 else self._prepare_mark)(table)
            changes.append({"identifier": {"namespace": [name.namespace], "name": name.table}, **change})
            after[name] = new
            events.append(self._commit_event(name, new))
        self._change(
            Call("POST", f"{LAKE}/transactions/commit", {"table-changes": changes}, self._key()), after, *events
        )

    def _mark_pair(self) -> None:
        """Commit to both of two tables that other clients change too."""
        mark = self._new_name()
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
        append = self._upload(prepare_append(head, snapshot, writer=self.name))
        log = SharedLog(LOG)
        mine = self.ledger.known[log]
        assert isinstance(mine, frozenset)
        document = {"requirements": append.requirements, "updates": append.updates}
        call = Call("POST", table_path(SHARED, LOG), document, self._key())
        self._contend(Step(call, {log: mine | {snapshot}}, [Change("TableCommitted", SHARED, LOG)]))

    def _contend(self, step: Step) -> None:
        """Request a change that can conflict with other clients: then it must not happen at all."""
        self.ledger.begin(step)
        reply = self._wire.call(step.call)
        if (reply.status, reply.kind) == (409, "CommitFailedException"):
            self.conflicts += 1
            self.ledger.refuse()
        elif reply.status in (200, 204):
            self.ledger.confirm()
        else:
            raise Finding("wrong", f"{step.call} returned {reply}")

    def _rename(self) -> None:
        found, target = self._random_table(), self._unused_name()
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
        found = self._random_table()
        if found is None:
            return
        name, table = found
        purge = self._random.random() < 0.3
        path = f"{table_path(*name)}?purgeRequested={'true' if purge else 'false'}"
        change = Change("TableDropped", *name, generation=table.generation)
        self._change(Call("DELETE", path, None, self._key()), {name: None}, change)

    def _repeat(self) -> None:
        """Repeat the last request: the response is the same, and nothing changes."""
        step = self.ledger.last
        if step is None:
            return
        self.ledger.repeated += 1
        reply = self._wire.call(step.call)
        if reply.status not in (200, 204):
            raise Finding("wrong", f"the repetition of {step.call} returned {reply}")

    # -- parts of actions -----------------------------------------------------------------------------------------

    def _snapshot_id(self) -> int:
        return self._random.getrandbits(62)

    def _upload(self, append: Append) -> Append:
        self._wire.put_files(append.files)
        return append

    def _prepare_append(self, table: OwnTable) -> tuple[Json, OwnTable]:
        append = self._upload(prepare_append(table.head, self._snapshot_id(), writer=self.name))
        return {"requirements": append.requirements, "updates": append.updates}, after_commit(table, head=append.head)

    def _prepare_mark(self, table: OwnTable) -> tuple[Json, OwnTable]:
        # Sometimes long, so that the metadata file is stored as a blob.
        mark = self._new_name() + "." * self._random.choice((0, 0, 6000))
        updates = [{"action": "set-properties", "updates": {"mark": mark}}]
        return {"requirements": [], "updates": updates}, after_commit(table, mark=mark)

    def _commit_event(self, name: Name, after: OwnTable) -> Change:
        return Change("TableCommitted", *name, generation=after.generation, snapshot=after.head.snapshot or 0)

    # -- checks ---------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Check the outcome of the request whose response was lost."""
        step = self.ledger.pending
        if step is None:
            return
        found = {subject: self._state_of(subject) for subject in step.after}
        before = {subject: self.ledger.known[subject] for subject in step.after}
        happened = found == step.after
        if not happened and found != before:
            some = any(found[one] == step.after[one] for one in found if before[one] != step.after[one])
            raise Finding("torn" if some else "lost", f"{step} on {before} left {found}")
        self.ledger.note(happened=happened)
        if step.call.key:
            happened = self._repeat_with_key(step, happened=happened)
        self.ledger.settle(happened=happened)

    def _repeat_with_key(self, step: Step, *, happened: bool) -> bool:
        """Repeat a request with its key after a crash, whether or not it had happened. Returns whether it has now."""
        self.ledger.repeated += 1
        reply = self._wire.call(step.call)
        is_shared = not any(isinstance(subject, Name) for subject in step.after)
        if is_shared and not happened and reply.status == 409:
            return False
        if reply.status not in (200, 204):
            raise Finding("wrong", f"{step.call} returned {reply} after a crash. happened={happened}")
        for subject, state in step.after.items():
            if (found := self._state_of(subject)) != state:
                raise Finding("wrong", f"the repetition of {step.call} left {subject} as {found} instead of {state}")
        return True

    def _load(self, name: Name) -> Json:
        loaded = self._wire.load(*name)
        if loaded is None:
            raise Finding("lost", f"no table {name}")
        return loaded

    def _state_of(self, subject: Subject) -> State:
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
            reply = self._wire.request("GET", tables_path(namespace))
            listed = {one["name"] for one in reply.document["identifiers"]}
            acknowledged = {name.table for name, _ in self._existing() if name.namespace == namespace}
            if listed != acknowledged:
                raise Finding("lost", f"the tables of {namespace} are {listed}, acknowledged were {acknowledged}")

    def _audit_files(self) -> None:
        """Check that every metadata pointer, and the current snapshot below it, refers to existing files."""
        for name, _ in self._existing():
            loaded = self._load(name)
            at = loaded["metadata-location"]
            document = self._wire.get_file(at)
            if document is None:
                raise Finding("dangling", f"{name} points to the missing file {at}")
            if json.loads(document) != loaded["metadata"]:
                raise Finding("wrong", f"{name} is returned with other metadata than {at} has")
            listing = manifest_list_of(loaded["metadata"])
            if listing is None:
                continue
            lines = self._wire.get_file(listing)
            if lines is None:
                raise Finding("dangling", f"{name} refers to the missing file {listing}")
            for line in head_of(loaded["metadata"], lines).manifests:
                if self._wire.get_file(line.path) is None:
                    raise Finding("dangling", f"{name} refers to the missing file {line.path}")
