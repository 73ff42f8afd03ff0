from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import StateConflict
from lakebed.server.metrics import Metrics, clear_metrics
from lakebed.server.metrics.exposition import Block, Sample, expose


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    opened = Metrics(tmp_path / "run", 0)
    yield opened
    opened.close()


def samples_of(metrics: Metrics) -> dict[str, str]:
    """The value of each sample, by its name with labels."""
    lines = metrics.render().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_gauge_without_a_value_is_omitted_and_the_others_stay_right(metrics: Metrics, tmp_path: Path) -> None:
    sizes = metrics.gauge("lakebed_sizes", "Sizes.", ("of",))
    sizes.of("a").set(3)
    sizes.of("b").set(4)
    sizes.of("b").unset()
    other = Metrics(tmp_path / "run", 1)
    others = other.gauge("lakebed_sizes", "Sizes.", ("of",))
    others.of("a").unset()
    assert samples_of(metrics)['lakebed_sizes{of="a"}'] == "3"
    assert 'lakebed_sizes{of="b"}' not in samples_of(metrics)
    sizes.of("b").set(5)
    assert samples_of(metrics)['lakebed_sizes{of="b"}'] == "5"
    other.close()


def test_exposition_has_help_type_and_samples_of_each_family(metrics: Metrics) -> None:
    requests = metrics.counter("lakebed_requests_total", "Requests answered.", ("operation", "status"))
    requests.of("PutObject", "200").add()
    requests.of("GetObject", "200").add(2)
    metrics.gauge("lakebed_connections", "Open\nconnections \\ now.").of().set(1.5)
    seconds = metrics.histogram("lakebed_seconds", "Time taken.", ("operation",), bounds=(0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7):
        seconds.of("GetObject").observe(value)
    assert metrics.render().decode() == (
        "# HELP lakebed_metrics_dropped_samples_total Samples of series that exceeded the metrics file.\n"
        "# TYPE lakebed_metrics_dropped_samples_total counter\n"
        "lakebed_metrics_dropped_samples_total 0\n"
        "# HELP lakebed_requests_total Requests answered.\n"
        "# TYPE lakebed_requests_total counter\n"
        'lakebed_requests_total{operation="GetObject",status="200"} 2\n'
        'lakebed_requests_total{operation="PutObject",status="200"} 1\n'
        "# HELP lakebed_connections Open\\nconnections \\\\ now.\n"
        "# TYPE lakebed_connections gauge\n"
        "lakebed_connections 1.5\n"
        "# HELP lakebed_seconds Time taken.\n"
        "# TYPE lakebed_seconds histogram\n"
        'lakebed_seconds_bucket{operation="GetObject",le="0.1"} 2\n'
        'lakebed_seconds_bucket{operation="GetObject",le="1"} 3\n'
        'lakebed_seconds_bucket{operation="GetObject",le="+Inf"} 4\n'
        'lakebed_seconds_sum{operation="GetObject"} 7.65\n'
        'lakebed_seconds_count{operation="GetObject"} 4\n'
    )


def test_family_without_labels_is_exposed_from_the_start_and_one_with_labels_once_used(metrics: Metrics) -> None:
    metrics.counter("a_total", "A.")
    metrics.counter("b_total", "B.", ("x",))
    assert "a_total 0\n" in metrics.render().decode()
    assert "b_total" not in metrics.render().decode()


def test_any_worker_exposes_the_sums_over_all_workers(tmp_path: Path) -> None:
    workers = [Metrics(tmp_path, index) for index in range(3)]
    for index, worker in enumerate(workers):
        worker.counter("requests_total", "R.", ("op",)).of("get" if index else "put").add(index + 1)
        worker.gauge("connections", "C.").of().set(10)
        worker.histogram("seconds", "S.", bounds=(1.0,)).of().observe(index)
    answers = {worker.render() for worker in workers}
    assert len(answers) == 1
    numbers = samples_of(workers[0])
    assert numbers['requests_total{op="put"}'] == "1"
    assert numbers['requests_total{op="get"}'] == "5"
    assert numbers["connections"] == "30"
    assert (numbers['seconds_bucket{le="1"}'], numbers["seconds_sum"], numbers["seconds_count"]) == ("2", "3", "3")
    for worker in workers:
        worker.close()


def count_and_wait(folder: Path, ready: Connection) -> None:
    metrics = Metrics(folder, 1)
    metrics.counter("requests_total", "R.", ("op",)).of("get").add(5)
    metrics.gauge("connections", "C.", ("edge",)).of("s3").set(3)
    ready.send("counted")
    signal.pause()


@pytest.mark.slow
def test_counters_of_a_killed_worker_are_kept_and_continued_by_its_successor(tmp_path: Path) -> None:
    survivor = Metrics(tmp_path, 0)
    survivor.counter("requests_total", "R.", ("op",)).of("get").add(1)
    survivor.gauge("connections", "C.", ("edge",)).of("s3").set(1)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=count_and_wait, args=(tmp_path, there))
    process.start()
    assert process.pid is not None
    assert here.recv() == "counted"
    assert samples_of(survivor)['requests_total{op="get"}'] == "6"
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert samples_of(survivor)['requests_total{op="get"}'] == "6"

    successor = Metrics(tmp_path, 1)
    requests = successor.counter("requests_total", "R.", ("op",))
    successor.gauge("connections", "C.", ("edge",))
    requests.of("put").add(1)
    requests.of("get").add(1)
    assert samples_of(survivor)['requests_total{op="get"}'] == "7"
    assert samples_of(survivor)['requests_total{op="put"}'] == "1"
    assert samples_of(survivor)['connections{edge="s3"}'] == "1"
    survivor.close()
    successor.close()


def test_gauges_of_a_stopped_worker_are_removed(tmp_path: Path) -> None:
    stays, leaves = Metrics(tmp_path, 0), Metrics(tmp_path, 1)
    for worker in (stays, leaves):
        worker.gauge("connections", "C.").of().add(2)
        worker.counter("requests_total", "R.").of().add(2)
    leaves.close()
    assert (samples_of(stays)["connections"], samples_of(stays)["requests_total"]) == ("2", "4")
    stays.close()


def test_metrics_file_has_one_writing_process(metrics: Metrics, tmp_path: Path) -> None:
    with pytest.raises(StateConflict, match="metrics file in use by another process"):
        Metrics(tmp_path / "run", 0)


def test_clearing_resets_counters(tmp_path: Path) -> None:
    before = Metrics(tmp_path, 0)
    before.counter("requests_total", "R.").of().add(3)
    before.close()
    clear_metrics(tmp_path)
    after = Metrics(tmp_path, 0)
    after.counter("requests_total", "R.")
    assert samples_of(after)["requests_total"] == "0"
    after.close()


def test_series_with_a_different_declaration_are_left_out(tmp_path: Path) -> None:
    older, newer = Metrics(tmp_path, 0), Metrics(tmp_path, 1)
    older.histogram("seconds", "S.", bounds=(1.0, 2.0)).of().observe(1)
    older.counter("gone_total", "G.").of().add()
    newer.histogram("seconds", "S.", bounds=(1.0,)).of().observe(1)
    assert samples_of(newer)["seconds_count"] == "1"
    assert "gone_total" not in samples_of(newer)
    older.close()
    newer.close()


def test_incomplete_metrics_file_is_skipped(metrics: Metrics, tmp_path: Path) -> None:
    (tmp_path / "run" / "worker-7.metrics").touch()
    assert samples_of(metrics) == {"lakebed_metrics_dropped_samples_total": "0"}


def test_series_beyond_the_file_size_are_counted_and_the_others_stay_right(metrics: Metrics) -> None:
    family = metrics.counter("keys_total", "K.", ("key",))
    first = family.of("first")
    for index in range(20_000):
        family.of(f"key-{index}").add()
    first.add(7)
    family.of("key-0").add(2)
    numbers = samples_of(metrics)
    assert numbers['keys_total{key="first"}'] == "7"
    assert numbers['keys_total{key="key-0"}'] == "3"
    kept = sum(int(number) for name, number in numbers.items() if name.startswith("keys_total"))
    assert kept + int(numbers["lakebed_metrics_dropped_samples_total"]) == 20_000 + 7 + 2
    assert int(numbers["lakebed_metrics_dropped_samples_total"]) > 0


def test_names_beyond_the_file_size_are_counted(metrics: Metrics) -> None:
    family = metrics.counter("keys_total", "K.", ("key",))
    for index in range(300):
        family.of(f"{index}" * 4000).add()
    assert int(samples_of(metrics)["lakebed_metrics_dropped_samples_total"]) > 0


def test_concurrent_threads_lose_no_increment(metrics: Metrics) -> None:
    counter = metrics.counter("hits_total", "H.").of()
    histogram = metrics.histogram("seconds", "S.", bounds=(1.0,)).of()

    def hammer() -> None:
        for _ in range(20_000):
            counter.add()
            histogram.observe(1.0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=hammer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    numbers = samples_of(metrics)
    assert (numbers["hits_total"], numbers["seconds_count"], numbers["seconds_sum"]) == ("80000", "80000", "80000")


def test_counter_cannot_decrease(metrics: Metrics) -> None:
    with pytest.raises(ValueError, match="cannot decrease"):
        metrics.counter("a_total", "A.").of().add(-1)


def test_invalid_declarations_are_refused(metrics: Metrics) -> None:
    metrics.counter("a_total", "A.", ("x",))
    with pytest.raises(ValueError, match="declared twice"):
        metrics.gauge("a_total", "A.")
    with pytest.raises(ValueError, match="invalid metric or label name"):
        metrics.counter("a-b", "A.")
    with pytest.raises(ValueError, match="invalid metric or label name"):
        metrics.histogram("h", "H.", ("le",))
    for bounds in ((), (2.0, 1.0), (1.0, 1.0), tuple(float(index) for index in range(63))):
        with pytest.raises(ValueError, match="ascending bounds"):
            metrics.histogram("h", "H.", bounds=bounds)


def test_each_label_needs_a_value(metrics: Metrics) -> None:
    with pytest.raises(ValueError, match="a value for each label"):
        metrics.counter("a_total", "A.", ("x",)).of()


def test_label_that_is_not_utf8_is_escaped(metrics: Metrics) -> None:
    metrics.counter("a_total", "A.", ("x",)).of("\udc80").add()
    assert samples_of(metrics)['a_total{x="\\\\udc80"}'] == "1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (-0.1, "-0.1"),
        (1e22, "1" + "0" * 22),
        (1e-9, "1e-09"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_have_the_prometheus_format(value: float, text: str) -> None:
    assert expose([Block("a", "gauge", "A.", (Sample("", (), value),))]).decode().endswith(f"\na {text}\n")


@given(st.text(max_size=50), st.text(max_size=50))
def test_sample_is_one_line_for_any_label_and_help_text(label: str, text: str) -> None:
    exposed = expose([Block("a", "gauge", text, (Sample("", (("x", label),), 1.0),))]).decode()
    assert exposed.count("\n") == 3
    assert exposed.split("\n")[2].startswith('a{x="')
    assert exposed.endswith('"} 1\n')


def test_exposition_is_read_by_the_parser_of_prometheus(metrics: Metrics) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    metrics.counter("a_total", "A \\ b\n.", ("x",)).of('q"u\\o\nte').add(3)
    metrics.gauge("b", "B.").of().set(-0.5)
    metrics.histogram("c", "C.", ("y",)).of("é").observe(0.003)
    families = {family.name: family for family in parser.text_string_to_metric_families(metrics.render().decode())}
    assert {name: family.type for name, family in families.items()} == {
        "lakebed_metrics_dropped_samples": "counter",
        "a": "counter",
        "b": "gauge",
        "c": "histogram",
    }
    (sample,) = families["a"].samples
    assert (sample.labels, sample.value) == ({"x": 'q"u\\o\nte'}, 3.0)
    buckets = [s for s in families["c"].samples if s.name == "c_bucket"]
    assert [s.value for s in buckets if float(s.labels["le"]) < 0.003] == [0.0, 0.0, 0.0]
    assert buckets[-1].labels == {"y": "é", "le": "+Inf"}
