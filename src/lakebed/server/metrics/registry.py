"""Counters, gauges and histograms: declared once a process, added to on every request, summed over workers when told.

Adding to a series costs a store or two; finding the series by its labels costs a dictionary look-up, so that hot paths
keep the series they use: `hits = requests.of("GetObject", "200")`, then `hits.add()`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar

from .exposition import Block, Sample, expose
from .slots import MAX_WIDTH, SeriesName, SlotFile, read_all

LATENCY_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds for the time that requests take."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Counter:
    """A number that only grows."""

    __slots__ = ("_slot", "_slots")

    def __init__(self, slots: memoryview[float], slot: int) -> None:
        self._slots = slots
        self._slot = slot

    def add(self, amount: float = 1.0) -> None:
        """Grow by `amount`, which is not negative."""
        if amount < 0:
            raise ValueError(f"a counter never goes back. amount={amount}")
        self._slots[self._slot] += amount


class Gauge:
    """A number that comes and goes. What workers say is summed."""

    __slots__ = ("_slot", "_slots")

    def __init__(self, slots: memoryview[float], slot: int) -> None:
        self._slots = slots
        self._slot = slot

    def set(self, value: float) -> None:
        """Be `value` from now on."""
        self._slots[self._slot] = value

    def unset(self) -> None:
        """Be nothing that is told, until it is set."""
        self._slots[self._slot] = math.nan

    def add(self, amount: float) -> None:
        """Change by `amount`."""
        self._slots[self._slot] += amount


class Histogram:
    """How many observations fell under each bound, and their sum."""

    __slots__ = ("_bounds", "_slot", "_slots")

    def __init__(self, slots: memoryview[float], slot: int, bounds: tuple[float, ...]) -> None:
        self._slots = slots
        self._slot = slot
        self._bounds = bounds

    def observe(self, value: float) -> None:
        """Count one observation."""
        slots, first = self._slots, self._slot
        slots[first] += value
        slots[first + 1 + bisect_left(self._bounds, value)] += 1.0


Series = TypeVar("Series", Counter, Gauge, Histogram)


class MetricFamily(ABC, Generic[Series]):
    """Series of one name, told apart by the values of their labels."""

    kind: str
    width = 1

    def __init__(self, metrics: Metrics, name: str, text: str, labels: tuple[str, ...]) -> None:
        if not all(_NAME.fullmatch(word) for word in (name, *labels)) or "le" in labels:
            raise ValueError(f"not a name of a metric or label. name={name} labels={labels}")
        self.name = name
        self.text = text
        self.labels = labels
        self._metrics = metrics
        self._series: dict[tuple[str, ...], Series] = {}

    def of(self, *values: str) -> Series:
        """The series with these label values, made on first use."""
        try:
            return self._series[values]
        except KeyError:
            return self._first_use(values)

    def samples(self, values: tuple[str, ...], numbers: list[float]) -> Iterator[Sample]:
        """What is told of one series."""
        yield Sample("", tuple(zip(self.labels, values, strict=True)), numbers[0])

    @abstractmethod
    def _make(self, slots: memoryview[float], slot: int) -> Series: ...

    def _first_use(self, values: tuple[str, ...]) -> Series:
        if len(values) != len(self.labels):
            raise ValueError(f"expected a value for each label. metric={self.name} labels={self.labels}")
        written = tuple(value.encode(errors="backslashreplace").decode() for value in values)
        slot = self._metrics.file.allocate(SeriesName(self.name, written, self.width))
        if slot is None:
            # Not remembered: label values that find no room may be without number.
            self._metrics.dropped.add()
            return self._make(self._metrics.file.slots, 0)
        return self._series.setdefault(values, self._make(self._metrics.file.slots, slot))


class CounterFamily(MetricFamily[Counter]):
    """Counters of one name."""

    kind = "counter"

    def _make(self, slots: memoryview[float], slot: int) -> Counter:
        return Counter(slots, slot)


class GaugeFamily(MetricFamily[Gauge]):
    """Gauges of one name."""

    kind = "gauge"

    def _make(self, slots: memoryview[float], slot: int) -> Gauge:
        return Gauge(slots, slot)


class HistogramFamily(MetricFamily[Histogram]):
    """Histograms of one name: the sum, a slot for each bound, and one for what is above them."""

    kind = "histogram"

    def __init__(
        self, metrics: Metrics, name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...]
    ) -> None:
        super().__init__(metrics, name, text, labels)
        if not bounds or list(bounds) != sorted(set(bounds)) or len(bounds) > MAX_WIDTH - 2:
            raise ValueError(f"expected 1 to {MAX_WIDTH - 2} ascending bounds. metric={name} bounds={bounds}")
        self._bounds = bounds
        self.width = len(bounds) + 2

    def samples(self, values: tuple[str, ...], numbers: list[float]) -> Iterator[Sample]:
        """Counts up to each bound, then the sum and the count of all."""
        labels = tuple(zip(self.labels, values, strict=True))
        count = 0.0
        for bound, inside in zip((*self._bounds, float("inf")), numbers[1:], strict=True):
            count += inside
            yield Sample("_bucket", (*labels, ("le", bound)), count)
        yield Sample("_sum", labels, numbers[0])
        yield Sample("_count", labels, count)

    def _make(self, slots: memoryview[float], slot: int) -> Histogram:
        return Histogram(slots, slot, self._bounds)


AnyFamily = CounterFamily | GaugeFamily | HistogramFamily
FamilyType = TypeVar("FamilyType", CounterFamily, GaugeFamily, HistogramFamily)


class Metrics:
    """One worker's metrics. Made once a process, after the fork; families are declared before they are used."""

    def __init__(self, folder: Path, worker: int) -> None:
        """Open the worker's file in `folder`. Raises StateConflict while another process has it."""
        self._folder = folder
        self.file = SlotFile(folder, worker)
        self._families: dict[str, AnyFamily] = {}
        self.dropped = self.counter("lakebed_metrics_dropped_total", "Uses of series that found no room.").of()

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> CounterFamily:
        """Declare a counter; `name` ends in `_total`. It goes on where the worker's predecessor stopped."""
        return self._declare(CounterFamily(self, name, text, labels))

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> GaugeFamily:
        """Declare a gauge. It begins at zero, whatever the worker's predecessor left."""
        family = self._declare(GaugeFamily(self, name, text, labels))
        self.file.zero(name)
        return family

    def histogram(
        self, name: str, text: str, labels: tuple[str, ...] = (), bounds: tuple[float, ...] = LATENCY_SECONDS
    ) -> HistogramFamily:
        """Declare a histogram; `bounds` ascend, each included in its bucket."""
        return self._declare(HistogramFamily(self, name, text, labels, bounds))

    def render(self) -> bytes:
        """The text that Prometheus scrapes: every worker's numbers, summed. Milliseconds for thousands of series."""
        totals: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in self._families}
        for series, numbers in read_all(self._folder):
            family = self._families.get(series.family)
            if family is None or (family.width, len(family.labels)) != (series.width, len(series.labels)):
                continue  # of a worker that declared otherwise: an older build, on its way out
            if math.isnan(numbers[0]):
                continue  # it is of nothing that there is
            before = totals[series.family].get(series.labels)
            totals[series.family][series.labels] = (
                numbers if before is None else [a + b for a, b in zip(before, numbers, strict=True)]
            )
        return expose(
            Block(
                family.name,
                family.kind,
                family.text,
                tuple(s for labels, numbers in sorted(totals[name].items()) for s in family.samples(labels, numbers)),
            )
            for name, family in self._families.items()
            if totals[name]
        )

    def close(self) -> None:
        """Leave the counters to a successor, take the gauges away."""
        for family in self._families.values():
            if isinstance(family, GaugeFamily):
                self.file.zero(family.name)
        self.file.close()

    def _declare(self, family: FamilyType) -> FamilyType:
        if family.name in self._families:
            raise ValueError(f"metric declared twice. name={family.name}")
        self._families[family.name] = family
        if not family.labels:
            family.of()  # so that zero is told, too
        return family
