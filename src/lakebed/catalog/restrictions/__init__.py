"""Row filters and column masks of restricted principals, enforced without trusting the engine (ADR 22).

`caller_restrictions` resolves a caller's restriction on a table. `copy_definition` turns it into Spark SQL over one
snapshot; `copies` manages the filtered, masked copies that Spark writes; `scans` plans over them.
`restricted_metadata` is the table metadata that restricted principals receive.
"""

from .caller_restrictions import COPIES_NAMESPACE, Restrictions, is_copies_namespace

__all__ = ["COPIES_NAMESPACE", "Restrictions", "is_copies_namespace"]
