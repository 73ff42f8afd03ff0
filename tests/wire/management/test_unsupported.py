from __future__ import annotations

import msgspec
import pytest

from lakebed.core.errors import NotSupported
from lakebed.wire.management.catalog_requests import StorageDocument
from lakebed.wire.management.unsupported import STORAGE_FIELDS, STORES, inventory


def test_inventory_has_every_unsupported_value_with_its_error() -> None:
    printed = inventory()
    assert {feature for feature, _, _ in printed} == {
        one.feature for one in (*STORES.values(), *STORAGE_FIELDS.values())
    }
    assert {answer for _, answer, _ in printed} == {"406 UnsupportedOperationException"}
    assert all(note for _, _, note in printed)


def test_unsupported_fields_are_parsed() -> None:
    read = {field.encode_name for field in msgspec.structs.fields(StorageDocument)}
    of_external_stores = {"endpoint", "endpointInternal", "stsEndpoint", "roleArn", "storageName"}
    everywhere = {"storageType", "allowedLocations", "region", "pathStyleAccess", "kmsUnavailable"}
    assert read - everywhere - of_external_stores == STORAGE_FIELDS.keys()


@pytest.mark.parametrize("kind", STORES)
def test_error_for_other_stores_names_the_alternative(kind: str) -> None:
    with pytest.raises(NotSupported, match=f"{kind}.*S3 is supported"):
        StorageDocument(storage_type=kind).locations()
