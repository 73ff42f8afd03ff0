"""Commits to tables and views: checks requirements and applies updates to the current metadata. No I/O.

`check_table` compares requirements with the current metadata, `build_table` applies updates to it, `new_table` creates
the first metadata; views have the same three. Invalid input raises `InvalidInput`, an outdated requirement
`CommitConflict`.
"""

from .builder import build_table
from .creation import CreateTable, CreateView, new_table, new_view, parse_create_table, parse_create_view
from .requirements import (
    Requirement,
    check_table,
    check_view,
    is_create,
    parse_table_requirements,
    parse_view_requirements,
)
from .updates import Update, parse_table_updates, parse_view_updates
from .view_builder import build_view

__all__ = [
    "CreateTable",
    "CreateView",
    "Requirement",
    "Update",
    "build_table",
    "build_view",
    "check_table",
    "check_view",
    "is_create",
    "new_table",
    "new_view",
    "parse_create_table",
    "parse_create_view",
    "parse_table_requirements",
    "parse_table_updates",
    "parse_view_requirements",
    "parse_view_updates",
]
