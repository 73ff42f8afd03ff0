"""What a snapshot's operation promises of its changes.

Nothing is asked to change: engines commit deletes that match nothing, overwrites of empty tables, and rewrites of
manifests alone. What is refused are changes that the operation rules out, because readers of changes go by it.
"""

from __future__ import annotations

from lakebed.core.errors import InvalidInput

from .changes import Changes

__all__ = ["check_operation"]


def check_operation(operation: str | None, changes: Changes) -> None:
    """Raises InvalidInput for changes that the operation does not stand for. Format 1 may leave it open."""
    adds_data = any(file.is_data for file in changes.added.values())
    adds_deletes = any(not file.is_data for file in changes.added.values())
    match operation:
        case None | "overwrite":
            return
        case "append":
            if changes.removed:
                file = next(iter(changes.removed.values()))
                raise InvalidInput(f"an append cannot remove files. file={file.location}", argument="summary")
            if adds_deletes:
                raise InvalidInput("an append cannot add delete files", argument="summary")
        case "delete":
            if adds_data:
                raise InvalidInput("a delete cannot add data files", argument="summary")
        case "replace":
            if adds_data and not changes.removed:
                raise InvalidInput("a replace that adds data files must remove what they replace", argument="summary")
        case _:
            raise InvalidInput(f"unknown operation of a snapshot. operation={operation[:80]}", argument="summary")
