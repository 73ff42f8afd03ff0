"""The measured request paths. Each prepares a namespace, checks a response, and runs rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec

from benchmarks.catalog.appends import Series, prepare, write_files
from benchmarks.catalog.contention import contend
from benchmarks.catalog.site import Site, Table
from benchmarks.endpoint import ANY_LENGTH
from benchmarks.loadtool import Report
from benchmarks.samples import Sample

WRITERS: Final = 8
CONNECTIONS: Final = 8
DEPTH: Final = 100
"""Appends to a table before a writer continues with the next: engines merge manifests at this number by default."""
TABLES_A_TRANSACTION: Final = 100
TRANSACTIONS_A_SET: Final = 20
"""Transactions on the same tables."""


class Scenario(Protocol):
    @property
    def name(self) -> str:
        """The value of `--only`, and the namespace."""
        ...

    def prepare(self, site: Site) -> None:
        """Fill the new namespace."""
        ...

    def check(self, site: Site) -> None:
        """Raise RuntimeError if the catalog's response is wrong."""
        ...

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        """Load the catalog for about `seconds`. `number` is unique among the rounds."""
        ...


@dataclass(slots=True)
class RateEstimate:
    """Estimates how many operations a round must prepare, from earlier rounds."""

    first: float
    """Operations a second, before the first round."""
    _fastest: dict[str, float] = field(default_factory=dict)

    def needed(self, site: Site, seconds: float) -> int:
        """Return enough for a server that has become half as fast again."""
        return round(self._fastest.get(site.name, self.first) * seconds * 1.5) + 1

    def update(self, site: Site, sample: Sample) -> Sample:
        """Store the highest rate."""
        fastest = max(self._fastest.get(site.name, self.first), sample.operations / sample.elapsed_seconds)
        self._fastest[site.name] = fastest
        return sample


@dataclass(frozen=True, slots=True)
class Loads:
    """loadTable of tables with ten snapshots each."""

    tables: int
    snapshots: int = 10
    name: str = "load"
    _made: dict[str, list[Table]] = field(default_factory=dict)

    def prepare(self, site: Site) -> None:
        series = prepare(site, self.name, "table", self.tables * self.snapshots, self.snapshots)
        site.tool.deliver(site.endpoint, series.requests(site), connections=1)
        self._made[site.name] = list(series.tables)

    def check(self, site: Site) -> None:
        """Every table is at its last snapshot."""
        Series(self._made[site.name], self.snapshots).check(site, self.tables * self.snapshots)

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        requests = [site.load_request(table) for table in self._made[site.name]]
        return site.measure(lambda: site.tool.run(site.endpoint, requests, connections=CONNECTIONS, seconds=seconds))


@dataclass(frozen=True, slots=True)
class Creates:
    """createTable with unused names."""

    name: str = "create"
    _rate: RateEstimate = field(default_factory=lambda: RateEstimate(500))

    def prepare(self, site: Site) -> None:
        """Nothing: each round has its own namespace."""

    def check(self, site: Site) -> None:
        """A new table exists and is empty."""
        table = site.create_table(self.name, "checked")
        if site.metadata(table).get("snapshots"):
            raise RuntimeError(f"a new table has snapshots. server={site.name}")

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        namespace = f"{self.name}-{number}"
        site.create_namespace(namespace)
        names = (f"table-{index:06d}" for index in range(self._rate.needed(site, seconds)))
        requests = [site.create_request(namespace, name) for name in names]
        sample = site.measure(
            lambda: site.tool.run(site.endpoint, requests, connections=CONNECTIONS, seconds=seconds, once=True)
        )
        if (found := count_tables(site, namespace)) != sample.operations:
            raise RuntimeError(f"tables are missing. server={site.name} made={sample.operations} listed={found}")
        return self._rate.update(site, sample)


@dataclass(frozen=True, slots=True)
class Appends:
    """updateTable: appends by one or more writers, each to its own tables."""

    name: str
    writers: int
    _rate: RateEstimate = field(default_factory=lambda: RateEstimate(200))

    def prepare(self, site: Site) -> None:
        """Nothing: each round has its own tables."""

    def check(self, site: Site) -> None:
        """Two appends are committed."""
        series = prepare(site, self.name, "checked", 2, 2)
        for request in series.requests(site):
            site.endpoint.call(request)
        series.check(site, 2)

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        each = -(-self._rate.needed(site, seconds) // self.writers)
        all_series = [
            prepare(site, self.name, f"table-{number}-{writer}", each, DEPTH) for writer in range(self.writers)
        ]
        requests = [request for series in all_series for request in series.requests(site)]
        reports: list[Report] = []

        def work() -> Report:
            lengths = [len(series) for series in all_series]
            reports.append(site.tool.run(site.endpoint, requests, seconds=seconds, chains=lengths))
            return reports[0]

        sample = site.measure(work)
        for series, committed in zip(all_series, reports[0].chains, strict=True):
            series.check(site, committed)
        return self._rate.update(site, sample)


@dataclass(frozen=True, slots=True)
class Contention:
    """updateTable: appends by several writers to one table."""

    writers: int
    name: str = "contend"
    _rate: RateEstimate = field(default_factory=lambda: RateEstimate(200))

    def prepare(self, site: Site) -> None:
        """Nothing: each round has its own tables."""

    def check(self, site: Site) -> None:
        """An append to an outdated snapshot is refused."""
        series = prepare(site, self.name, "checked", 3, 3)
        first, second, _ = series.requests(site)
        site.endpoint.call(first)
        site.endpoint.call(second)
        late = site.late_append_request(series.tables[0], 3, 1)
        try:
            site.endpoint.call(replace(late, status=409, length=ANY_LENGTH))
        except RuntimeError as error:
            raise RuntimeError("an append to an outdated snapshot was accepted") from error
        series.check(site, 2)

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        """All writers commit the next append; after a conflict a writer loads the table and continues from there."""
        series = prepare(site, self.name, f"table-{number}", self._rate.needed(site, seconds), DEPTH)
        site.tool.deliver(site.endpoint, series.requests(site)[::DEPTH], connections=1)
        sample = site.measure(lambda: contend(site, series, self.writers, seconds))
        self._check_appended(site, series, sample.operations)
        return self._rate.update(site, sample)

    def _check_appended(self, site: Site, series: Series, committed: int) -> None:
        found = 0
        for table in series.tables:
            last = int(site.metadata(table)["last-sequence-number"])
            site.check_appended(table, last)
            found += last - 1
        if found != committed:
            raise RuntimeError(
                f"committed appends are missing. server={site.name} acknowledged={committed} found={found}"
            )


@dataclass(frozen=True, slots=True)
class Lists:
    """listTables: all names of a large namespace in one response."""

    tables: int
    name: str = "list"
    _lengths: dict[str, int] = field(default_factory=dict)

    def prepare(self, site: Site) -> None:
        requests = [site.create_request(self.name, f"table-{index:06d}") for index in range(self.tables)]
        site.tool.deliver(site.endpoint, requests, connections=CONNECTIONS)

    def check(self, site: Site) -> None:
        """All names are listed once, in one page."""
        response = site.endpoint.call(site.list_request(self.name))
        if (found := names_in(site, response.body)) != self.tables:
            raise RuntimeError(f"names are missing. server={site.name} expected={self.tables} found={found}")
        self._lengths[site.name] = len(response.body)

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        """List repeatedly; each response has the same length."""
        length = self._lengths[site.name]
        request = replace(site.list_request(self.name), length=(length, length))
        return site.measure(lambda: site.tool.run(site.endpoint, [request], connections=CONNECTIONS, seconds=seconds))


@dataclass(frozen=True, slots=True)
class Transactions:
    """commitTransaction: one append to each of a hundred tables, by one writer."""

    name: str = "transaction"
    _rate: RateEstimate = field(default_factory=lambda: RateEstimate(2))

    def prepare(self, site: Site) -> None:
        """Nothing: each round has its own tables."""

    def check(self, site: Site) -> None:
        """Nothing that a round does not check."""

    def round(self, site: Site, number: int, seconds: float) -> Sample:
        """Commit transactions; after some, continue with new tables."""
        sets = -(-self._rate.needed(site, seconds) // TRANSACTIONS_A_SET)
        chosen = [self._tables(site, f"{number}-{index}") for index in range(sets)]
        now_ms = time.time_ns() // 1_000_000
        requests = [
            site.transaction_request(tables, step, now_ms + step)
            for tables in chosen
            for step in range(1, TRANSACTIONS_A_SET + 1)
        ]
        sample = site.measure(lambda: site.tool.run(site.endpoint, requests, seconds=seconds, chains=[len(requests)]))
        for index, tables in enumerate(chosen):
            committed = min(TRANSACTIONS_A_SET, sample.operations - index * TRANSACTIONS_A_SET)
            for table in tables if committed > 0 else ():
                site.check_appended(table, committed)
        return self._rate.update(site, sample)

    def _tables(self, site: Site, label: str) -> list[Table]:
        tables = [site.create_table(self.name, f"table-{label}-{index}") for index in range(TABLES_A_TRANSACTION)]
        write_files(site, tables, TRANSACTIONS_A_SET)
        return tables


def names_in(site: Site, response: bytes) -> int:
    """Return the number of listed names. Raises RuntimeError if the list is paged or has duplicates."""
    document = msgspec.json.decode(response)
    if document.get("next-page-token"):
        raise RuntimeError(f"list is incomplete. server={site.name}")
    names = [one["name"] for one in document["identifiers"]]
    if len(set(names)) != len(names):
        raise RuntimeError(f"duplicate name in a list. server={site.name}")
    return len(names)


def count_tables(site: Site, namespace: str) -> int:
    """Return the number of tables in a namespace."""
    return names_in(site, site.endpoint.call(site.list_request(namespace)).body)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the results: a scenario, and its goal relative to the best peer."""

    title: str
    make: Callable[[bool], Scenario]
    """Takes True for a quick run."""
    unit: str = "op/s"
    goal: float = 2


ENTRIES: Final = (
    Entry("loadTable, 10 snapshots", lambda quick: Loads(20 if quick else 100)),
    Entry("createTable", lambda quick: Creates()),
    Entry("append, 1 writer", lambda quick: Appends("append-1", 1)),
    Entry("append, 8 writers on 8 tables", lambda quick: Appends("append-8", WRITERS)),
    Entry("append, 8 writers on 1 table", lambda quick: Contention(WRITERS)),
    Entry("listTables, 10,000 tables", lambda quick: Lists(1_000 if quick else 10_000)),
    Entry("transaction over 100 tables", lambda quick: Transactions()),
)
