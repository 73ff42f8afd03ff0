from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.external.bridges.model import (
    BridgeConfig,
    ExternalCatalogKind,
    SyncMode,
    decode_config,
    encode_config,
)
from lakebed.catalog.external.bridges.validation import check_config
from lakebed.catalog.external.remote.model import NO_SECRETS, AuthKind, RemoteAuth, RemoteSecrets
from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.governance.credentials.vault import Vault
from tests.catalog.extension_catalog import MASTER

OPERATED = BridgeConfig(catalog=ExternalCatalogKind.POLARIS, external_namespace=("ns",), external_table="t")
REST = BridgeConfig(
    catalog=ExternalCatalogKind.REST,
    external_namespace=("a", "b"),
    external_table="t",
    uri="https://catalog.example/iceberg",
    sync_mode=SyncMode.POLL,
)
FOLDER = BridgeConfig(catalog=ExternalCatalogKind.FOLDER, folder="s3://lake/t/metadata", sync_mode=SyncMode.POLL)
BEARER = RemoteAuth(kind=AuthKind.BEARER)
SIGV4 = RemoteAuth(kind=AuthKind.SIGV4, access_key_id="AKID", region="us-east-1", service="s3tables")
TOKEN = RemoteSecrets(token=Secret("t0k3n"))
KEYS = RemoteSecrets(secret_access_key=Secret("k3y-of-theirs"))


def changed(config: BridgeConfig, **changes: Any) -> BridgeConfig:
    return msgspec.structs.replace(config, **changes)


@pytest.mark.parametrize(
    ("config", "secrets"),
    [
        (OPERATED, NO_SECRETS),
        (changed(OPERATED, catalog=ExternalCatalogKind.HIVE, metadata_location="s3://b/m.metadata.json"), NO_SECRETS),
        (REST, NO_SECRETS),
        (changed(REST, auth=BEARER), TOKEN),
        (changed(REST, auth=BEARER, uri="http://127.0.0.1:8181"), TOKEN),
        (changed(REST, auth=BEARER, uri="http://[::1]:8181"), TOKEN),
        (changed(REST, auth=SIGV4, uri="http://catalog.example"), KEYS),
        (FOLDER, NO_SECRETS),
    ],
)
def test_valid_configurations_are_accepted(config: BridgeConfig, secrets: RemoteSecrets) -> None:
    check_config(config, secrets)


@pytest.mark.parametrize(
    ("config", "secrets", "argument"),
    [
        (changed(OPERATED, external_table=""), NO_SECRETS, "external-table"),
        (changed(OPERATED, external_namespace=()), NO_SECRETS, "external-table"),
        (changed(OPERATED, external_namespace=("a/b",)), NO_SECRETS, "external-namespace"),
        (changed(OPERATED, external_namespace=("a", "")), NO_SECRETS, "external-namespace"),
        (changed(OPERATED, external_table="a\x1fb"), NO_SECRETS, "external-table"),
        (changed(OPERATED, external_table="x" * 513), NO_SECRETS, "external-table"),
        (changed(OPERATED, external_catalog_id="a\\b"), NO_SECRETS, "external-catalog-id"),
        (changed(OPERATED, external_version_token=""), NO_SECRETS, "external-version-token"),
        (changed(OPERATED, external_table_uuid="no-uuid"), NO_SECRETS, "uuid"),
        (changed(OPERATED, metadata_location="file:///x"), NO_SECRETS, "location"),
        (changed(OPERATED, sync_mode=SyncMode.POLL), NO_SECRETS, "sync-mode"),
        (changed(OPERATED, uri="https://x"), NO_SECRETS, "uri"),
        (changed(OPERATED, folder="s3://b/f"), NO_SECRETS, "metadata-folder"),
        (changed(OPERATED, properties={"x" * 300: ""}), NO_SECRETS, "properties"),
        (changed(REST, uri=""), NO_SECRETS, "uri"),
        (changed(REST, uri="ftp://x"), NO_SECRETS, "uri"),
        (changed(REST, uri="https://"), NO_SECRETS, "uri"),
        (changed(REST, uri="https://x:port"), NO_SECRETS, "uri"),
        (changed(REST, uri="https://user:pass@x"), NO_SECRETS, "uri"),
        (changed(REST, uri="https://x/?a=b"), NO_SECRETS, "uri"),
        (changed(REST, uri="https://x/ y"), NO_SECRETS, "uri"),
        (changed(REST, poll_seconds=0), NO_SECRETS, "poll-interval-seconds"),
        (changed(REST, poll_seconds=10**9), NO_SECRETS, "poll-interval-seconds"),
        (changed(REST, auth=BEARER), NO_SECRETS, "auth"),
        (changed(REST, auth=BEARER), KEYS, "auth"),
        (changed(REST, auth=BEARER, uri="http://catalog.example"), TOKEN, "uri"),
        (changed(REST, auth=BEARER), RemoteSecrets(token=Secret("a\nb")), "auth"),
        (changed(REST, auth=SIGV4), NO_SECRETS, "auth"),
        (changed(REST, auth=msgspec.structs.replace(SIGV4, region="")), KEYS, "auth"),
        (changed(REST, auth=msgspec.structs.replace(SIGV4, service="a b")), KEYS, "auth"),
        (REST, TOKEN, "auth"),
        (changed(FOLDER, folder="s3://lake/"), NO_SECRETS, "metadata-folder"),
        (changed(FOLDER, folder=""), NO_SECRETS, "location"),
        (changed(FOLDER, auth=BEARER), TOKEN, "uri"),
    ],
)
def test_invalid_configurations_are_rejected_by_field(
    config: BridgeConfig, secrets: RemoteSecrets, argument: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_config(config, secrets)
    assert refused.value.argument == argument
    for secret in (secrets.token, secrets.secret_access_key):
        assert not secret or secret.reveal() not in str(refused.value)


def test_secrets_are_not_in_repr() -> None:
    secrets = RemoteSecrets(Secret("t0k3n"), Secret("k3y"), Secret("s3ss"))
    for text in (repr(secrets), str(secrets), repr(REST)):
        assert not any(word in text for word in ("t0k3n", "k3y", "s3ss"))
    vault = Vault(MASTER, "secrets of bridges")
    assert RemoteSecrets.opened(vault, secrets.sealed(vault, "1"), "1") == secrets
    assert RemoteSecrets.opened(vault, NO_SECRETS.sealed(vault, "1"), "1") == NO_SECRETS
    assert bool(secrets)
    assert not NO_SECRETS


@given(st.builds(BridgeConfig, catalog=st.sampled_from(ExternalCatalogKind), external_table=st.text(), uri=st.text()))
def test_stored_configuration_round_trips(config: BridgeConfig) -> None:
    assert decode_config(encode_config(config)) == config
