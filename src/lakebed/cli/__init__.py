"""The `lakebed` command. It speaks to people: what went wrong is one line that says what to do next."""

from .main import main

__all__ = ["main"]
