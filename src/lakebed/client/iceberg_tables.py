"""Opens Iceberg tables of a server with PyIceberg, with vended credentials.

Requires PyIceberg (the extra `conform`).
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
    """Load the current table; its catalog, which plans scans, stays open during the block.

    Raises NoSuchTable, AccessDenied, Unauthenticated, Unavailable; MissingExtra without PyIceberg.
    """
    properties: dict[str, Any] = {  # Any: text, except for TLS settings
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
    """Translate errors of PyIceberg."""
    from pyiceberg import exceptions as iceberg_errors

    try:
        yield
    except LakebedError:
        raise
    except (iceberg_errors.NoSuchTableError, iceberg_errors.NoSuchNamespaceError) as error:
        raise NoSuchTable(f"no such table. table={table}") from error
    except iceberg_errors.ForbiddenError as error:
        raise AccessDenied(f"access to the table denied. table={table} reason={error}") from error
    except iceberg_errors.UnauthorizedError as error:
        raise Unauthenticated(f"the catalog refused the credentials. reason={error}") from error
    except NotImplementedError as error:
        raise NotSupported(
            f"the table uses features that PyIceberg does not support. table={table} reason={error}"
        ) from error
    except iceberg_errors.RESTError as error:
        if str(error).startswith("NoSuchWarehouseException"):
            raise NoSuchCatalog(f"no such table bucket. warehouse={table.warehouse}") from error
        raise Unavailable(f"reading the table failed. table={table} reason={error}") from error
    except OSError as error:
        raise Unavailable(f"reading the table failed. table={table} reason={error}") from error
