"""PyIceberg in a bucket with two catalogs of the management API, which are isolated from each other."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError, NoSuchTableError

from tests.clients.boto import Keys, connected, refused, root_keys
from tests.clients.iceberg.lake import DELEGATION, OWN, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.iceberg.test_pyiceberg_roles import ManagementApi, Member, bearer
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class SharedBucket:
    """A bucket with two catalogs whose names and base locations share a prefix."""

    bucket: str
    one: Lake
    two: Lake
    writer: Member
    """A member with every permission in the first catalog and none in the second."""


def create_catalog(server: RunningServer, name: str, base: str, kind: str = "INTERNAL") -> Lake:
    """Create a catalog with the management API."""
    keys = root_keys(server)
    lake = Lake(server, name)
    catalog = {
        "type": kind,
        "name": name,
        "properties": {"default-base-location": base},
        "storageConfigInfo": {"storageType": "S3", "allowedLocations": [base]},
    }
    ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key)).call("POST", "/catalogs", {"catalog": catalog})
    return lake


@pytest.fixture(scope="module")
def shared(lakebed_server: RunningServer) -> SharedBucket:
    bucket = f"shared-{uuid.uuid4().hex[:20]}"
    with connected(lakebed_server) as s3:
        s3.create_bucket(Bucket=bucket)
    name = f"catalog_{uuid.uuid4().hex[:12]}"
    one = create_catalog(lakebed_server, name, f"s3://{bucket}/teams/one")
    two = create_catalog(lakebed_server, f"{name}0", f"s3://{bucket}/teams/one0")
    keys = root_keys(lakebed_server)
    management = ManagementApi(one, bearer(one, keys.access_key, keys.secret_key))
    writer = management.member("writer")
    management.grant(writer, "CATALOG_MANAGE_CONTENT")
    return SharedBucket(bucket, one, two, writer)


def test_catalogs_have_separate_names_and_files(shared: SharedBucket) -> None:
    with shared.one.catalog() as one, shared.two.catalog() as two:
        one.create_namespace("ns")
        assert one.list_namespaces() == [("ns",)]
        assert two.list_namespaces() == []
        first = one.create_table(("ns", "t"), SCHEMA)
        first.append(people(1, 2))
        assert first.location().startswith(f"s3://{shared.bucket}/teams/one/")
        with pytest.raises(NoSuchNamespaceError):
            two.list_tables("ns")
        with pytest.raises(NoSuchTableError):
            two.load_table(("ns", "t"))
        two.create_namespace("ns")
        second = two.create_table(("ns", "t"), SCHEMA)
        second.append(people(9))
        assert second.location().startswith(f"s3://{shared.bucket}/teams/one0/")
        assert (ids_of(one.load_table(("ns", "t"))), ids_of(two.load_table(("ns", "t")))) == ([1, 2], [9])
        for outside in ("teams/one0/x", "teams/x", "x", "teams/one"):
            with pytest.raises(BadRequestError):
                one.create_table(("ns", "u"), SCHEMA, location=f"s3://{shared.bucket}/{outside}")
        with pytest.raises(BadRequestError):
            one.register_table(("ns", "stolen"), second.metadata_location)
        assert one.list_tables("ns") == [("ns", "t")]


def test_credentials_of_one_catalog_do_not_open_the_other(shared: SharedBucket, lakebed_server: RunningServer) -> None:
    with shared.two.catalog() as two:
        two.create_namespace_if_not_exists("private")
        theirs = two.create_table(("private", "t"), SCHEMA)
        theirs.append(people(7))
    with shared.writer.catalog() as mine:
        mine.create_namespace_if_not_exists("own")
        table = mine.create_table(("own", "t"), SCHEMA)
        table.append(people(1))
        assert ids_of(mine.load_table(("own", "t"))) == [1]
        given = table.io.properties
        keys = Keys(given["s3.access-key-id"], given["s3.secret-access-key"], given["s3.session-token"])
    home = table.location().removeprefix(f"s3://{shared.bucket}/")
    with connected(lakebed_server, keys) as s3:
        assert s3.list_objects_v2(Bucket=shared.bucket, Prefix=f"{home}/")["KeyCount"] > 0
        s3.put_object(Bucket=shared.bucket, Key=f"{home}/data/mine", Body=b"")
        foreign = theirs.metadata_location.removeprefix(f"s3://{shared.bucket}/")
        calls: tuple[Callable[[], object], ...] = (
            lambda: s3.get_object(Bucket=shared.bucket, Key=foreign),
            lambda: s3.put_object(Bucket=shared.bucket, Key="teams/one0/x", Body=b""),
            lambda: s3.put_object(Bucket=shared.bucket, Key="teams/one/.lakebed/x", Body=b""),
            lambda: s3.delete_object(Bucket=shared.bucket, Key=foreign),
            lambda: s3.list_objects_v2(Bucket=shared.bucket, Prefix="teams/one0/"),
            lambda: s3.list_objects_v2(Bucket=shared.bucket, Prefix=""),
        )
        for call in calls:
            with refused("AccessDenied", 403):
                call()


def test_permissions_in_one_catalog_do_not_apply_to_the_other(shared: SharedBucket) -> None:
    stranger = Member(shared.two, shared.writer.name, shared.writer.client_id, shared.writer.secret)
    with pytest.raises(ForbiddenError), stranger.catalog():
        pass
    assert stranger.ask("GET", "namespaces").status == 403


def test_external_catalog_refuses_commits(shared: SharedBucket, lakebed_server: RunningServer) -> None:
    name = f"mirror_{uuid.uuid4().hex[:12]}"
    mirror = create_catalog(lakebed_server, name, f"s3://{shared.bucket}/mirror", "EXTERNAL")
    with mirror.catalog() as catalog:
        catalog.create_namespace("ns")
        with pytest.raises(BadRequestError, match="external catalog"):
            catalog.create_table(("ns", "t"), SCHEMA)
        assert catalog.list_tables("ns") == []


def test_remote_signing_works_in_both_catalogs(shared: SharedBucket, lakebed_server: RunningServer) -> None:
    keys = root_keys(lakebed_server)
    token = bearer(shared.one, keys.access_key, keys.secret_key)["Authorization"].removeprefix("Bearer ")

    def signing(lake: Lake) -> RestCatalog:
        settings = {
            "uri": f"{lakebed_server.endpoint}{OWN}",
            "warehouse": lake.warehouse,
            "token": token,
            DELEGATION: "remote-signing",
        }
        return RestCatalog(lake.warehouse, **settings)

    with closing(signing(shared.one)) as one, closing(signing(shared.two)) as two:
        for catalog, number in ((one, 1), (two, 2)):
            catalog.create_namespace_if_not_exists("signed")
            catalog.create_table(("signed", "t"), SCHEMA).append(people(number))
        for catalog, number in ((one, 1), (two, 2)):
            assert ids_of(catalog.load_table(("signed", "t"))) == [number]


def test_catalog_name_need_not_be_a_bucket_name(shared: SharedBucket, lakebed_server: RunningServer) -> None:
    name = f"Sales ü {uuid.uuid4().hex[:12]}"
    lake = create_catalog(lakebed_server, name, f"s3://{shared.bucket}/odd name")
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "t"), SCHEMA).append(people(1, 2))
        table = catalog.load_table(("ns", "t"))
        assert table.location().startswith(f"s3://{shared.bucket}/odd name/")
        assert ids_of(table) == [1, 2]


def test_empty_catalog_can_be_dropped(shared: SharedBucket, lakebed_server: RunningServer) -> None:
    name = f"brief_{uuid.uuid4().hex[:12]}"
    lake = create_catalog(lakebed_server, name, f"s3://{shared.bucket}/brief")
    keys = root_keys(lakebed_server)
    management = ManagementApi(lake, bearer(lake, keys.access_key, keys.secret_key))
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "t"), SCHEMA)
        assert management.send("DELETE", f"/catalogs/{name}").status == 400
        catalog.drop_table(("ns", "t"))
        catalog.drop_namespace("ns")
    assert management.send("DELETE", f"/catalogs/{name}").status == 204
    assert management.send("GET", f"/catalogs/{name}").status == 404
