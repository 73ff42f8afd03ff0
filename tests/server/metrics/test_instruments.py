from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.events.delivery import DeliveryCounts, TargetBacklog
from lakebed.events.delivery.dispatcher import NO_BACKLOG
from lakebed.select.model import QueryStats
from lakebed.server.metrics import Metrics
from lakebed.server.metrics.instruments import DeliveryInstruments, Instruments
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response


def request(method: str, received: int = 0) -> Request:
    body = RequestBody(received)
    if received:
        body.push(b"x" * received)
    return Request(method, "/b/k", "", {}, body, "http", "", "R")


def test_requests_are_counted_by_operation_and_status(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0)
    instruments = Instruments(metrics).s3
    for _ in range(3):
        instruments.observe("GetObject", request("GET"), Response(200, body=b"12345"), 0.002)
    instruments.observe("GetObject", request("GET"), Response(404, body=b"no"), 0.002)
    instruments.observe("HeadObject", request("HEAD"), Response(200, length=99), 0.02)
    instruments.observe("PutObject", request("PUT", 7), Response(200), 0.2)
    lines = metrics.render().decode().splitlines()
    for line in (
        'lakebed_s3_requests_total{operation="GetObject",status="200"} 3',
        'lakebed_s3_requests_total{operation="GetObject",status="404"} 1',
        'lakebed_s3_requests_total{operation="HeadObject",status="200"} 1',
        'lakebed_s3_request_duration_seconds_count{operation="GetObject"} 4',
        'lakebed_s3_request_duration_seconds_bucket{operation="GetObject",le="0.001"} 0',
        'lakebed_s3_sent_bytes_total{operation="GetObject"} 17',
        'lakebed_s3_received_bytes_total{operation="PutObject"} 7',
    ):
        assert line in lines
    assert not any("lakebed_catalog_requests_total{" in line for line in lines)
    assert not any("sent_bytes" in line and "HeadObject" in line for line in lines)
    sums = [line for line in lines if line.startswith('lakebed_s3_request_duration_seconds_sum{operation="GetObject"}')]
    assert float(sums[0].split()[1]) == pytest.approx(0.008)
    metrics.close()


def test_selects_are_counted_by_outcome(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0)
    selects = Instruments(metrics).selects
    selects.ended("done", QueryStats(100, 300, 7))
    selects.ended("done", QueryStats(10, 10, 0))
    selects.ended("CastFailed", QueryStats(1, 1, 1))
    lines = metrics.render().decode().splitlines()
    for line in (
        'lakebed_select_requests_total{outcome="done"} 2',
        'lakebed_select_requests_total{outcome="CastFailed"} 1',
        "lakebed_select_scanned_bytes_total 111",
        "lakebed_select_processed_bytes_total 311",
        "lakebed_select_returned_bytes_total 8",
    ):
        assert line in lines
    metrics.close()


def test_target_metrics_are_labeled_by_name_and_type(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0)
    try:
        deliveries = DeliveryInstruments(metrics)
        deliveries.count("r:webhook", DeliveryCounts(delivered=5, failed=2, dead_lettered=1, skipped=0))
        deliveries.count("r:webhook", DeliveryCounts(delivered=1, failed=0, dead_lettered=0, skipped=3))
        deliveries.measure("r:webhook", TargetBacklog(behind=7, waiting=4, dead=1, in_flight=2))
        deliveries.measure("r:kafka", TargetBacklog(behind=9, waiting=0, dead=0))
        deliveries.measure("r:kafka", NO_BACKLOG)
        text = metrics.render().decode()
        webhook = '{target="r",type="webhook"}'
        for name, value in (
            ("delivered_events_total", 6),
            ("failed_attempts_total", 2),
            ("dead_lettered_events_total", 1),
            ("skipped_events_total", 3),
            ("lag_events", 7),
            ("retrying_events", 4),
            ("dead_letters", 1),
            ("in_flight_events", 2),
        ):
            assert f"lakebed_target_{name}{webhook} {value}\n" in text
        assert 'lakebed_target_lag_events{target="r",type="kafka"} 0\n' in text
    finally:
        metrics.close()
