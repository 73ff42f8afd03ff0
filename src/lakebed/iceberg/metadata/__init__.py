"""Metadata of tables and views: parsed, validated and serialized. No I/O.

`write_table` shares text with the document of the previous metadata. Invalid documents raise `InvalidInput`.
"""

from .parsing import parse_table
from .serialization import TableText, serialize_table, write_table
from .table import TableMetadata
from .views import ViewMetadata, parse_view, serialize_view

__all__ = [
    "TableMetadata",
    "TableText",
    "ViewMetadata",
    "parse_table",
    "parse_view",
    "serialize_table",
    "serialize_view",
    "write_table",
]
