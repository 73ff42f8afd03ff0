"""Counters, gauges and histograms, declared once per process and summed over processes when rendered.

An update costs a store or two. Looking a series up by its labels costs a dictionary access, so hot paths keep the
series: `hits = requests.of("GetObject", "200")`, then `hits.add()`.
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
"""Bucket bounds of request durations."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Counter:
    """A value that only grows."""

    __slots__ = ("_slot", "_slots")

    def __init__(self, slots: memoryview[float], slot: int) -> None:
        self._slots = slots
        self._slot = slot

    def add(self, amount: float = 1.0) -> None:
        """Add `amount`, which is not negative."""
        if amount < 0:
            raise ValueError(f"a counter cannot decrease. amount={amount}")
        self._slots[self._slot] += amount


class Gauge:
    """A value that rises and falls. Values of several processes are summed."""

    __slots__ = ("_slot", "_slots")

    def __init__(self, slots: memoryview[float], slot: int) -> None:
        self._slots = slots
        self._slot = slot

    def set(self, value: float) -> None:
        """Set the value."""
        self._slots[self._slot] = value

    def unset(self) -> None:
        """Stop rendering the series until it is set again."""
        self._slots[self._slot] = math.nan

    def add(self, amount: float) -> None:
        """Add `amount`, which may be negative."""
        self._slots[self._slot] += amount


class Histogram:
    """The number of observations per bucket, and their sum."""

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
    """The series of one metric, by label values."""

    kind: str
    width = 1

    def __init__(self, metrics: Metrics, name: str, text: str, labels: tuple[str, ...]) -> None:
        if not all(_NAME.fullmatch(word) for word in (name, *labels)) or "le" in labels:
            raise ValueError(f"invalid metric or label name. name={name} labels={labels}")
        self.name = name
        self.text = text
        self.labels = labels
        self._metrics = metrics
        self._series: dict[tuple[str, ...], Series] = {}

    def of(self, *values: str) -> Series:
        """The series with these label values, created on first use."""
        try:
            return self._series[values]
        except KeyError:
            return self._first_use(values)

    def samples(self, values: tuple[str, ...], numbers: list[float]) -> Iterator[Sample]:
        """The samples of one series."""
        yield Sample("", tuple(zip(self.labels, values, strict=True)), numbers[0])

    @abstractmethod
    def _make(self, slots: memoryview[float], slot: int) -> Series: ...

    def _first_use(self, values: tuple[str, ...]) -> Series:
        if len(values) != len(self.labels):
            raise ValueError(f"expected a value for each label. metric={self.name} labels={self.labels}")
        written = tuple(value.encode(errors="backslashreplace").decode() for value in values)
        slot = self._metrics.file.allocate(SeriesName(self.name, written, self.width))
        if slot is None:
            # Not cached: the number of such label values is unbounded.
            self._metrics.dropped.add()
            return self._make(self._metrics.file.slots, 0)
        return self._series.setdefault(values, self._make(self._metrics.file.slots, slot))


class CounterFamily(MetricFamily[Counter]):
    """A counter metric."""

    kind = "counter"

    def _make(self, slots: memoryview[float], slot: int) -> Counter:
        return Counter(slots, slot)


class GaugeFamily(MetricFamily[Gauge]):
    """A gauge metric."""

    kind = "gauge"

    def _make(self, slots: memoryview[float], slot: int) -> Gauge:
        return Gauge(slots, slot)


class HistogramFamily(MetricFamily[Histogram]):
    """A histogram metric. Slots: the sum, one per bound, and one for values above all bounds."""

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
        """Cumulative bucket counts, then the sum and the total count."""
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
    """The metrics of one process. Created after the fork; metrics are declared before use."""

    def __init__(self, folder: Path, worker: int) -> None:
        """Open the process's file in `folder`. Raises StateConflict while another process has it open."""
        self._folder = folder
        self.file = SlotFile(folder, worker)
        self._families: dict[str, AnyFamily] = {}
        self.dropped = self.counter(
            "lakebed_metrics_dropped_samples_total", "Samples of series that exceeded the metrics file."
        ).of()

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> CounterFamily:
        """Declare a counter; `name` ends in `_total`. It continues from the value before a restart."""
        return self._declare(CounterFamily(self, name, text, labels))

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> GaugeFamily:
        """Declare a gauge. It starts at zero, also after a restart."""
        family = self._declare(GaugeFamily(self, name, text, labels))
        self.file.zero(name)
        return family

    def histogram(
        self, name: str, text: str, labels: tuple[str, ...] = (), bounds: tuple[float, ...] = LATENCY_SECONDS
    ) -> HistogramFamily:
        """Declare a histogram; `bounds` ascend and are inclusive."""
        return self._declare(HistogramFamily(self, name, text, labels, bounds))

    def render(self) -> bytes:
        """The response of a scrape: the values of all processes, summed. Milliseconds for thousands of series."""
        totals: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in self._families}
        for series, numbers in read_all(self._folder):
            family = self._families.get(series.family)
            if family is None or (family.width, len(family.labels)) != (series.width, len(series.labels)):
                continue  # declared differently by a process of an older build
            if math.isnan(numbers[0]):
                continue  # unset
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
        """Close the file: counters stay for a restarted process, gauges are zeroed."""
        for family in self._families.values():
            if isinstance(family, GaugeFamily):
                self.file.zero(family.name)
        self.file.close()

    def _declare(self, family: FamilyType) -> FamilyType:
        if family.name in self._families:
            raise ValueError(f"metric declared twice. name={family.name}")
        self._families[family.name] = family
        if not family.labels:
            family.of()  # so that zero is rendered, too
        return family
