"""Metrics of all processes of a server, rendered by any worker in the Prometheus text format."""

from .exposition import CONTENT_TYPE
from .registry import LATENCY_SECONDS, Counter, Gauge, Histogram, MetricFamily, Metrics
from .slots import clear_metrics

__all__ = [
    "CONTENT_TYPE",
    "LATENCY_SECONDS",
    "Counter",
    "Gauge",
    "Histogram",
    "MetricFamily",
    "Metrics",
    "clear_metrics",
]
