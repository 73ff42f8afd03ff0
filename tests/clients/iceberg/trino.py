"""Trino on a table bucket: one catalog of the shared server per access mode."""

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
"""Files are accessed with vended credentials."""

STATIC: Final = {"iceberg.rest-catalog.vended-credentials-enabled": "false"}
"""Files are accessed with the keys that sign catalog requests."""


@dataclass(frozen=True, slots=True)
class TrinoCatalog:
    """A Trino server and its catalog for one table bucket in one access mode."""

    server: TrinoServer
    name: str
    lake: Lake

    def sql(self, statement: str, **settings: str) -> list[tuple[Any, ...]]:  # Any: values of rows
        """Run a statement and return its rows. `settings` are session properties of the catalog."""
        return self.server.sql(statement, {f"{self.name}.{name}": value for name, value in settings.items()})

    def value(self, query: str) -> Any:  # Any: a value of a row
        """The single value that a query returns."""
        ((found,),) = self.sql(query)
        return found

    def column(self, query: str) -> list[Any]:  # Any: likewise
        """The single column that a query returns."""
        return [found for (found,) in self.sql(query)]

    def schema(self, *levels: str) -> str:
        """A namespace's full name: its levels joined by dots into one name."""
        return f'{self.name}."{".".join(levels)}"'

    def table(self, namespace: str, name: str = "t") -> str:
        """A table's full name. Metadata tables of `t` are `t$files` and similar."""
        return f'{self.schema(namespace)}."{name}"'


def reasons(error: TrinoQueryError) -> str:
    """The messages of a failed statement and all of its causes, which Trino's message may omit."""
    messages, failure = [], error.failure_info
    while failure:
        messages.append(f"{failure['type']}: {failure.get('message')}")
        failure = failure.get("cause")
    return "\n".join(messages)


def new_catalog(
    server: TrinoServer,
    lake: Lake,
    keys: Keys,
    mode: Mapping[str, str],
    *,
    mount: str = OWN,
    service: str = "s3",
) -> TrinoCatalog:
    """Add a catalog to the server, with requests signed by these keys."""
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
        # Trino has no separate setting for the keys that sign catalog requests.
        "s3.aws-access-key": keys.access_key,
        "s3.aws-secret-key": keys.secret_key,
        **mode,
    }
    name = f"lake_{uuid.uuid4().hex[:8]}"
    listed = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
    server.sql(f"CREATE CATALOG {name} USING iceberg WITH ({listed})")
    return TrinoCatalog(server, name, lake)
