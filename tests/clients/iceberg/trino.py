"""Trino on a table bucket: the ways in, each a catalog of the one server."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from trino.exceptions import TrinoQueryError

from tests.clients.boto import REGION, Keys
from tests.clients.iceberg.lake import OWN, Lake
from tests.fixtures.trino import TrinoServer

TRINO_MARKS: Final = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]

VENDED: Final = {"iceberg.rest-catalog.vended-credentials-enabled": "true"}
"""Files are reached with keys that the catalog hands out."""

HELD: Final = {"iceberg.rest-catalog.vended-credentials-enabled": "false"}
"""Files are reached with the keys that sign what is asked of the catalog."""


@dataclass(frozen=True, slots=True)
class TrinoCatalog:
    """The server, and the catalog of it that is one way into one table bucket."""

    server: TrinoServer
    name: str
    lake: Lake

    def sql(self, statement: str, **settings: str) -> list[tuple[Any, ...]]:  # Any: whatever is in the rows
        """Run a statement to its end; its rows. `settings` are the catalog's own of the session."""
        return self.server.sql(statement, {f"{self.name}.{name}": value for name, value in settings.items()})

    def value(self, query: str) -> Any:  # Any: whatever it is
        """The one value that a query finds."""
        ((found,),) = self.sql(query)
        return found

    def column(self, query: str) -> list[Any]:  # Any: likewise
        """The one column that a query finds."""
        return [found for (found,) in self.sql(query)]

    def schema(self, *levels: str) -> str:
        """A namespace's full name: its levels are one name with dots."""
        return f'{self.name}."{".".join(levels)}"'

    def table(self, namespace: str, name: str = "t") -> str:
        """A table's full name. What Trino knows about a table `t` is in `t$files` and its like."""
        return f'{self.schema(namespace)}."{name}"'


def reasons(error: TrinoQueryError) -> str:
    """What a statement failed of, down to what it all began with: Trino's own message may stop at itself."""
    messages, failure = [], error.failure_info
    while failure:
        messages.append(f"{failure['type']}: {failure.get('message')}")
        failure = failure.get("cause")
    return "\n".join(messages)


def new_catalog(
    server: TrinoServer,
    lake: Lake,
    keys: Keys,
    way: Mapping[str, str],
    *,
    mount: str = OWN,
    service: str = "s3",
) -> TrinoCatalog:
    """Add a catalog to the server, signed for with these keys."""
    settings = {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{lake.server.endpoint}{mount}",
        "iceberg.rest-catalog.warehouse": lake.warehouse,
        "iceberg.rest-catalog.sigv4-enabled": "true",
        "iceberg.rest-catalog.signing-name": service,
        "iceberg.rest-catalog.nested-namespace-enabled": "true",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": lake.server.endpoint,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        # What signs requests to the catalog has no name of its own in Trino.
        "s3.aws-access-key": keys.access_key,
        "s3.aws-secret-key": keys.secret_key,
        **way,
    }
    name = f"lake_{uuid.uuid4().hex[:8]}"
    listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
    server.sql(f"CREATE CATALOG {name} USING iceberg WITH ({listed})")
    return TrinoCatalog(server, name, lake)
