"""What policies leave of a table for whom they restrict, enforced without trusting the engine (ADR 22).

`deciding` says who is restricted on which table, and refuses what is not for them. `recipes` turns a restriction into
what is selected of one snapshot, in SQL for Spark; `copies` keeps the filtered, masked copies that Spark makes of it;
`scans` plans over them. `shown` is the table's metadata as such a caller sees it.
"""

from .caller_restrictions import COPIES_NAMESPACE, Restrictions, is_copies_namespace

__all__ = ["COPIES_NAMESPACE", "Restrictions", "is_copies_namespace"]
