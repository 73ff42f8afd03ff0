"""Random operations on a catalog, compared with a model after every step.

Invariants: listings contain what was created and not dropped, every pointer names a file with the committed state,
directories never overlap, and each change has one event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    CommitConflict,
    LakebedError,
    LocationConflict,
    NoSuchTable,
    TableProtected,
)
from tests.objects.consistency import check_tables
from tests.objects.stores import ROOT, OpenObjectStore

from .harness import CatalogHarness, a_change, name, open_catalog, set_property

T = TypeVar("T")

AS_ROOT = Mutation(ROOT)
TABLE = EntryKind.TABLE
WINDOW = 60

# Few of each, so that operations collide.
tables = st.sampled_from((name("a"), name("b"), name("a", "other"), name("b", "other")))
places = st.sampled_from((None, "x", "x/y", "x/y/z", "x0", "w"))
values = st.integers(0, 3)


@dataclass
class ModelTable:
    """The expected state of a table."""

    id: str
    directories: set[str]
    generation: int = 1
    properties: dict[str, str] = field(default_factory=dict)
    protected: bool = False
    expires: int | None = None
    """Set while it is dropped."""
    purge: bool = False

    @property
    def is_live(self) -> bool:
        return self.expires is None


class CatalogMachine(RuleBasedStateMachine):
    """A catalog and its model."""

    def __init__(self, open_object_store: OpenObjectStore) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.stack = AsyncExitStack()
        store = self.run(self.stack.enter_async_context(open_object_store(self.clock)))
        self.catalog: CatalogHarness = self.run(open_catalog(store))
        self.run(self.catalog.namespace("other"))
        self.tables: dict[Identifier, ModelTable] = {}
        self.purging: list[set[str]] = []
        """The directories of tables with pending purges."""
        self.changes = len(self.run(self.catalog.events()))
        self.window = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: coroutines yield values of the event loop
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    def attempt(self, work: Coroutine[Any, Any, T], failure: type[LakebedError] | None) -> T | None:
        """Run a change that must succeed, and count it; or expect its error."""
        if failure is None:
            self.changes += 1
            return self.run(work)
        with pytest.raises(failure):
            self.run(work)
        return None

    def live(self, identifier: Identifier) -> ModelTable | None:
        found = self.tables.get(identifier)
        return found if found is not None and found.is_live else None

    def is_taken(self, wanted: set[str], but: ModelTable | None = None) -> bool:
        held = [one for table in self.tables.values() if table is not but for one in table.directories]
        held += [one for directories in self.purging for one in directories]
        return any(one.startswith(other) or other.startswith(one) for one in wanted for other in held)

    def forget(self, identifier: Identifier, *, purge: bool) -> None:
        gone = self.tables.pop(identifier)
        if purge:
            self.purging.append(gone.directories)

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(table=tables, place=places, data=places)
    def create(self, table: Identifier, place: str | None, data: str | None) -> None:
        request: dict[str, Any] = {} if place is None else {"location": f"s3://lake/{place}"}
        if data is not None:
            request["properties"] = {"write.data.path": f"s3://lake/{data}/"}
        wanted = {f"{one}/" for one in (place, data) if one is not None}
        failure: type[LakebedError] | None = None
        if table in self.tables:
            failure = AlreadyExists
        elif self.is_taken(wanted):
            failure = LocationConflict
        made = self.attempt(self.catalog.create(table.name, namespace=table.namespace[0], **request), failure)
        if made is not None:
            properties = dict(request.get("properties", {}))
            wanted |= {f"tables/{made.entry.id}/"} if place is None else set()
            self.tables[table] = ModelTable(made.entry.id, _outermost(wanted), properties=properties)

    @rule(table=tables, value=values, expected=values, checked=st.booleans())
    def commit(self, table: Identifier, value: int, expected: int, checked: bool) -> None:
        model = self.live(table)
        requirement = {"type": "assert-current-schema-id", "current-schema-id": expected}
        failure: type[LakebedError] | None = None
        if model is None:
            failure = NoSuchTable
        elif checked and expected != 0:
            failure = CommitConflict
        work = self.catalog.commit(table, set_property("n", str(value)), requirements=[requirement] if checked else [])
        if model is not None and failure is None and model.properties.get("n") == str(value):
            assert self.run(work).entry.generation == model.generation
            return
        committed = self.attempt(work, failure)
        if committed is not None and model is not None:
            model.properties["n"] = str(value)
            model.generation += 1
            assert committed.entry.generation == model.generation

    @rule(table=tables, place=places.filter(lambda place: place is not None))
    def move(self, table: Identifier, place: str) -> None:
        model = self.live(table)
        failure: type[LakebedError] | None = None
        if model is None:
            failure = NoSuchTable
        elif self.is_taken({f"{place}/"}, model):
            failure = LocationConflict
        update = set_property("write.metadata.path", f"s3://lake/{place}")
        if model is not None and model.properties.get("write.metadata.path") == f"s3://lake/{place}":
            return
        if self.attempt(self.catalog.commit(table, update), failure) is not None and model is not None:
            model.properties["write.metadata.path"] = f"s3://lake/{place}"
            model.directories = _outermost(model.directories | {f"{place}/"})
            model.generation += 1

    @rule(first=tables, second=tables, value=values)
    def commit_together(self, first: Identifier, second: Identifier, value: int) -> None:
        chosen = {first: self.live(first), second: self.live(second)}
        changes = [a_change(one, set_property("together", str(value))) for one in (first, second)]
        work = self.catalog.commit_all(*changes)
        if None in chosen.values():
            with pytest.raises(NoSuchTable):
                self.run(work)
            return
        self.run(work)
        for model in chosen.values():
            if model is not None and model.properties.get("together") != str(value):
                model.properties["together"] = str(value)
                model.generation += 1
                self.changes += 1

    @rule(table=tables, purge=st.booleans())
    def drop(self, table: Identifier, purge: bool) -> None:
        model = self.live(table)
        failure: type[LakebedError] | None = None
        if model is None:
            failure = NoSuchTable
        elif model.protected:
            failure = TableProtected
        self.attempt(self.catalog.dropping.drop(AS_ROOT, "lake", table, TABLE, purge=purge), failure)
        if model is None or failure is not None:
            return
        if self.window:
            model.expires, model.purge = self.clock.now_ms() + self.window * 1000, purge
        else:
            self.forget(table, purge=purge)

    @rule(table=tables, on=st.booleans())
    def protect(self, table: Identifier, on: bool) -> None:
        model = self.live(table)
        failure = NoSuchTable if model is None else None
        self.attempt(self.catalog.dropping.protect(AS_ROOT, "lake", table, TABLE, protected=on), failure)
        if model is not None:
            model.protected = on

    @rule(table=tables)
    def restore(self, table: Identifier) -> None:
        model = self.tables.get(table)
        failure: type[LakebedError] | None = None
        if model is None:
            failure = NoSuchTable
        elif model.is_live:
            failure = AlreadyExists
        self.attempt(self.catalog.dropping.restore(AS_ROOT, "lake", table), failure)
        if model is not None:
            model.expires, model.purge = None, False

    @rule(table=tables, files=st.booleans())
    def give_up(self, table: Identifier, files: bool) -> None:
        model = self.tables.get(table)
        is_dropped = model is not None and not model.is_live
        self.attempt(
            self.catalog.dropping.purge_now(AS_ROOT, "lake", table, files=files), None if is_dropped else NoSuchTable
        )
        if model is not None and is_dropped:
            self.forget(table, purge=files or model.purge)

    @rule(table=tables, other=tables)
    def rename(self, table: Identifier, other: Identifier) -> None:
        model = self.live(table)
        failure: type[LakebedError] | None = None
        if model is None:
            failure = NoSuchTable
        elif other in self.tables and other != table:
            failure = AlreadyExists
        self.attempt(self.catalog.renaming.rename(AS_ROOT, "lake", table, other, TABLE), failure)
        if model is not None and failure is None:
            del self.tables[table]
            self.tables[other] = model

    @rule(window=st.sampled_from((0, WINDOW)))
    def set_window(self, window: int) -> None:
        self.window = window
        self.changes += 1
        self.run(self.catalog.set_undrop_window(window))

    @rule()
    def time_passes(self) -> None:
        self.clock.advance(WINDOW / 2)
        expired = [
            one
            for one, model in self.tables.items()
            if model.expires is not None and model.expires <= self.clock.now_ms()
        ]
        assert self.run(self.catalog.dropping.expire_dropped()) == len(expired)
        self.changes += len(expired)
        for one in expired:
            self.forget(one, purge=self.tables[one].purge)

    @rule()
    def purge(self) -> None:
        assert self.run(self.catalog.purges.run_due()) == len(self.purging)
        self.purging.clear()

    # -- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def tables_are_as_the_model_says(self) -> None:
        self.run(self._compare())

    async def _compare(self) -> None:
        catalog = self.catalog
        for namespace in ("ns", "other"):
            page = await catalog.entries.list(ROOT, "lake", [namespace], TABLE, after="", limit=100)
            expected = [
                one.name for one, model in self.tables.items() if one.namespace[0] == namespace and model.is_live
            ]
            assert page.names == sorted(expected)
        for identifier, model in self.tables.items():
            if model.is_live:
                entry = await catalog.entry(identifier)
                assert (entry.id, entry.generation, entry.protected) == (model.id, model.generation, model.protected)
                metadata = await catalog.metadata(identifier)
                assert dict(metadata.properties).items() >= model.properties.items()
                assert len(metadata.metadata_log) == model.generation - 1
        waiting = (await catalog.dropping.dropped(ROOT, "lake", after="", limit=100)).items
        assert {one.entry.id for one in waiting} == {one.id for one in self.tables.values() if not one.is_live}
        claimed = await catalog.claimed()
        for model in self.tables.values():
            assert set(claimed.pop(model.id)) == model.directories
        assert sorted(map(sorted, claimed.values())) == sorted(map(sorted, self.purging))
        assert len(await catalog.events()) == self.changes
        await catalog.store.garbage_collector.sweep()
        await check_tables(catalog.store)


def _outermost(directories: set[str]) -> set[str]:
    return {one for one in directories if not any(one != other and one.startswith(other) for other in directories)}
