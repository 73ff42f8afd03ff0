"""Catalogs over external storage with Apache Polaris' command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.boto import root_keys
from tests.clients.iceberg.external_lake import ExternalLake, running_external_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.fixtures.polaris_cli import find_or_install_polaris

from .cli import Polaris, Refused, iceberg

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalLake]:
    with running_external_lake(tmp_path_factory.mktemp("external")) as lake:
        yield lake


@pytest.fixture
def polaris(external: ExternalLake, tmp_path: Path) -> Polaris:
    return Polaris(find_or_install_polaris(), external.server, tmp_path, root_keys(external.server))


def test_catalog_is_created_used_and_changed(external: ExternalLake, polaris: Polaris) -> None:
    bucket = external.minio.make_bucket()
    location = f"s3://{bucket}/quickstart"
    at = ("--default-base-location", location, "--allowed-location", f"s3://{bucket}/more")
    store = ("--endpoint", external.minio.endpoint, "--path-style-access", "--region", "us-east-1")
    keys = ("--encryption-key", "arn:aws:kms:us-east-1:1:key/k", "--no-kms")
    polaris.run("catalogs", "create", "--storage-type", "s3", *at, *store, *keys, "--storage-name", "minio", "outside")
    shown = polaris.document("catalogs", "get", "outside")["storageConfigInfo"]
    assert shown["endpoint"] == external.minio.endpoint
    assert (shown["storageName"], shown["pathStyleAccess"], shown["kmsUnavailable"]) == ("minio", True, True)
    assert shown["encryptionKeys"] == ["arn:aws:kms:us-east-1:1:key/k"]
    with iceberg(polaris, "outside") as opened:
        # Polaris' administrator has no data permissions until a role has them; root has.
        opened.create_namespace("ns")
        opened.create_table("ns.t", SCHEMA).append(people(1, 2))
        assert ids_of(opened.load_table("ns.t")) == [1, 2]
        opened.drop_table("ns.t")
        opened.drop_namespace("ns")
    assert external.keys_in(bucket, "quickstart/")
    polaris.run("catalogs", "update", "outside", "--set-property", "team=web")
    assert polaris.document("catalogs", "get", "outside")["properties"]["team"] == "web"
    polaris.run("catalogs", "delete", "outside")


def test_catalog_without_sts(external: ExternalLake, polaris: Polaris) -> None:
    bucket = external.minio.make_bucket()
    store = ("--endpoint", external.minio.endpoint, "--path-style-access", "--no-sts", "--storage-name", "minio")
    base = ("--default-base-location", f"s3://{bucket}/wh")
    polaris.run("catalogs", "create", "--storage-type", "s3", *base, *store, "signed")
    assert polaris.document("catalogs", "get", "signed")["storageConfigInfo"]["stsUnavailable"] is True
    with iceberg(polaris, "signed") as opened:
        opened.create_namespace("ns")
        opened.create_table("ns.t", SCHEMA).append(people(1))
        assert ids_of(opened.load_table("ns.t")) == [1]


def test_unknown_host_and_credential_set_are_refused(external: ExternalLake, polaris: Polaris) -> None:
    create = ("catalogs", "create", "--storage-type", "s3", "--default-base-location", "s3://b/x")
    with pytest.raises(Refused, match=r"external_storage\.hosts"):
        polaris.run(*create, "--endpoint", "https://169.254.169.254", "--storage-name", "minio", "x")
    with pytest.raises(Refused, match=r"external_storage\.credentials\.other"):
        polaris.run(*create, "--endpoint", external.minio.endpoint, "--storage-name", "other", "x")
