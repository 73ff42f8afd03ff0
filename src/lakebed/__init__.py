"""Lakebed: a streaming lakehouse in one server."""

__version__ = "0.1.0"
