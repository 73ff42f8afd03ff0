"""Metadata of Iceberg tables and views: read, checked, changed by commits, written. No I/O.

A commit is three calls: `parse_table` the document before, `check_table` the requirements, `build_table` the document
after; `write_table` gives its text, sharing what it can with that of the one before. Views have the same four. Bad
input raises `InvalidInput`, a commit made from a state that has passed raises `CommitConflict`.
"""

from .builder import build_table
from .creation import CreateTable, CreateView, new_table, new_view, parse_create_table, parse_create_view
from .parsing import parse_table
from .requirements import (
    Requirement,
    check_table,
    check_view,
    is_create,
    parse_table_requirements,
    parse_view_requirements,
)
from .serialization import TableText, serialize_table, write_table
from .table import TableMetadata
from .updates import Update, parse_table_updates, parse_view_updates
from .view_builder import build_view
from .views import ViewMetadata, parse_view, serialize_view

__all__ = [
    "CreateTable",
    "CreateView",
    "Requirement",
    "TableMetadata",
    "TableText",
    "Update",
    "ViewMetadata",
    "build_table",
    "build_view",
    "check_table",
    "check_view",
    "is_create",
    "new_table",
    "new_view",
    "parse_create_table",
    "parse_create_view",
    "parse_table",
    "parse_table_requirements",
    "parse_table_updates",
    "parse_view",
    "parse_view_requirements",
    "parse_view_updates",
    "serialize_table",
    "serialize_view",
    "write_table",
]
