"""A sum over rows that does not depend on their order, nor on the files they are in. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..table_ref import quoted_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def row_hash(schema: StructType) -> str:
    """An SQL expression: 64 bits of a row, of all its columns."""
    terms = [
        f"to_json(struct({quoted_name(field.name)}))" if _has_no_hash(field.dataType) else quoted_name(field.name)
        for field in schema.fields
    ]
    return f"xxhash64({', '.join(terms)})"


def _has_no_hash(kind: DataType) -> bool:
    """Whether Spark's hash refuses a type: maps, whose order it takes for chance, and what may hold one."""
    words = kind.simpleString()
    return any(word in words for word in ("map<", "variant", "geometry", "geography"))
