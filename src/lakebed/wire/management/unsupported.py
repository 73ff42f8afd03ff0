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
        f"Catalogs on other stores (storageType {kind})", "S3 is supported, here and in other S3 stores"
    )
    for kind in ("AZURE", "FILE", "GCS")
}

_EXTERNAL_ONLY: Final = "it is supported for external S3 stores, which have an endpoint, storageName or roleArn"

STORAGE_FIELDS: Final[Mapping[str, UnsupportedField]] = {
    field: UnsupportedField(f"Catalogs in buckets of this server (storageConfigInfo.{field})", _EXTERNAL_ONLY)
    for field in (
        "externalId",
        "userArn",
        "currentKmsKey",
        "allowedKmsKeys",
        "encryptionKeys",
        "decryptionKeys",
        "stsUnavailable",
    )
}
"""By the name of the field. Accepting one would have no effect."""


def inventory() -> list[tuple[str, str, str]]:
    """Every unsupported field or value, with its error and the alternative."""
    refusal = ERROR_MODELS[NotSupported]
    error = f"{refusal.status} {refusal.type}"
    return [(one.feature, error, one.note) for one in (*STORES.values(), *STORAGE_FIELDS.values())]
