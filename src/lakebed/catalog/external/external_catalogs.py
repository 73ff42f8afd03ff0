"""What clients may not do in a catalog whose tables are another catalog's.

The other catalog moves the pointers, and this one is told of it: by notifications, or by a bridge that follows. Were
clients to move them here too, the two would part, and the next that is told would undo what the client was promised.
Names are this server's all the same: namespaces are made and dropped, and tables leave the catalog without their files.
"""

from __future__ import annotations

from lakebed.core.errors import InvalidInput

from ..model import Catalog


def check_own(catalog: Catalog, what: str) -> None:
    """Return if the tables of the warehouse are its own. Raises InvalidInput; `what` is what was asked for."""
    if catalog.is_external:
        raise InvalidInput(
            f"Cannot {what} in an external catalog: it is told of its tables by another one. catalog={catalog.name}",
            argument="catalog",
        )
