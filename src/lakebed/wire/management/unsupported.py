"""Fields of the management API that are not supported. Printed by `lakebed conform`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakebed.core.errors import NotSupported
from lakebed.wire.json.errors import ERROR_MODELS


class UnsupportedField(NamedTuple):
    """An unsupported field or value of a request."""

    feature: str
    note: str

    @property
    def error(self) -> NotSupported:
        """The error."""
        return NotSupported(f"{self.feature}: not supported; {self.note}")


STORES: Final[Mapping[str, UnsupportedField]] = {
    kind: UnsupportedField(
        f"Catalogs on other stores (storageType {kind})", "S3, in a bucket of this server, is supported"
    )
    for kind in ("AZURE", "FILE", "GCS")
}

_CREDENTIALS: Final = "the server accesses its own store without roles, users or keys of another"
_ADDRESS: Final = "clients get the address of this server"

STORAGE_FIELDS: Final[Mapping[str, UnsupportedField]] = {
    field: UnsupportedField(f"Catalogs on other stores (storageConfigInfo.{field})", note)
    for field, note in {
        "roleArn": _CREDENTIALS,
        "externalId": _CREDENTIALS,
        "userArn": _CREDENTIALS,
        "currentKmsKey": _CREDENTIALS,
        "allowedKmsKeys": _CREDENTIALS,
        "endpoint": _ADDRESS,
        "endpointInternal": _ADDRESS,
        "stsEndpoint": _ADDRESS,
        "stsUnavailable": "clients that need no vended credentials do not request them",
        "storageName": "the server's settings configure the only store",
    }.items()
}
"""By the name of the field. Accepting one would have no effect."""


def inventory() -> list[tuple[str, str, str]]:
    """Every unsupported field or value, with its error and the alternative."""
    refusal = ERROR_MODELS[NotSupported]
    error = f"{refusal.status} {refusal.type}"
    return [(one.feature, error, one.note) for one in (*STORES.values(), *STORAGE_FIELDS.values())]
