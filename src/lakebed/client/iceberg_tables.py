"""Iceberg tables of a server, opened with PyIceberg: with the keys that the catalog hands out, and errors of ours.

Needs PyIceberg (the extra `conform`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from lakebed.core.errors import (
    AccessDenied,
    LakebedError,
    NoSuchCatalog,
    NoSuchTable,
    NotSupported,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.extras import require_extra

from .access import ServerAccess
from .names import TableRef

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["open_table", "pyiceberg_errors"]


@contextmanager
def open_table(access: ServerAccess, table: TableRef) -> Iterator[Table]:
    """The table as it is now, and the catalog that plans its scans, for the time of a block.

    Raises NoSuchTable, AccessDenied, Unauthenticated, Unavailable; MissingExtra where PyIceberg is not installed.
    """
    properties: dict[str, Any] = {  # Any: text, but for the settings of TLS
        "uri": access.catalog_uri,
        "warehouse": table.warehouse,
        "scan-planning-mode": "server",
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3",
        "rest.signing-region": access.region,
        "client.region": access.region,
        "client.access-key-id": access.access_key_id,
        "client.secret-access-key": access.secret_access_key.reveal(),
    }
    if access.session_token is not None:
        properties["client.session-token"] = access.session_token.reveal()
    if access.ca_bundle is not None:
        properties["ssl"] = {"cabundle": access.ca_bundle}
    require_extra("conform", "reading an Iceberg table")
    from pyiceberg.catalog.rest import RestCatalog

    with pyiceberg_errors(table), closing(RestCatalog(table.warehouse, **properties)) as catalog:
        yield catalog.load_table((*table.namespace, table.table))


@contextmanager
def pyiceberg_errors(table: TableRef) -> Iterator[None]:
    """What goes wrong with PyIceberg, as errors of ours."""
    from pyiceberg import exceptions as theirs

    try:
        yield
    except LakebedError:
        raise
    except (theirs.NoSuchTableError, theirs.NoSuchNamespaceError) as error:
        raise NoSuchTable(f"no such table. table={table}") from error
    except theirs.ForbiddenError as error:
        raise AccessDenied(f"the table may not be read. table={table} reason={error}") from error
    except theirs.UnauthorizedError as error:
        raise Unauthenticated(f"the catalog does not know the keys. reason={error}") from error
    except NotImplementedError as error:
        raise NotSupported(f"the table has what PyIceberg does not read. table={table} reason={error}") from error
    except theirs.RESTError as error:
        if str(error).startswith("NoSuchWarehouseException"):
            raise NoSuchCatalog(f"no such table bucket. warehouse={table.warehouse}") from error
        raise Unavailable(f"the table cannot be read. table={table} reason={error}") from error
    except OSError as error:
        raise Unavailable(f"the table cannot be read. table={table} reason={error}") from error
