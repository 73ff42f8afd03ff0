"""The `lakebed` command. Errors are one line with advice."""

from .main import main

__all__ = ["main"]
