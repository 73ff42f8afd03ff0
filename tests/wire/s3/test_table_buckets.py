"""Bucket policies, lifecycle rules and deletion of table buckets over S3."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from lakebed.wire.s3.unsupported import inventory
from tests.clients.boto import Keys
from tests.wire.iceberg.lake import Answer, Lake, allow, opened_lake

ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
PEOPLE = {"AWS": "arn:aws:iam::000000000000:user/ann"}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table bucket `lake` and a table in it."""
    async with opened_lake(tmp_path) as opened:
        assert (await opened.table()).status == 200
        yield opened


async def put_policy(lake: Lake, *statements: Mapping[str, object], bucket: str = "lake") -> Answer:
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return await lake.send("PUT", f"/{bucket}?policy", json.dumps(document).encode())


async def load(lake: Lake, keys: Keys, table: str = "t") -> int:
    return (await lake.call("GET", f"/lake/namespaces/ns/tables/{table}", keys=keys)).status


async def test_policy_of_a_table_bucket_allows_access_to_its_tables(lake: Lake) -> None:
    ann = await lake.user("ann")
    assert await load(lake, ann) == 403
    grant = {
        "Effect": "Allow",
        "Principal": PEOPLE,
        "Action": "s3tables:GetTableMetadataLocation",
        "Resource": f"{ARN}/table/*",
        "Condition": {"StringEquals": {"s3tables:namespace": "ns", "s3tables:tableName": "t"}},
    }
    assert (await put_policy(lake, grant)).status == 204
    assert await load(lake, ann) == 200
    assert (await lake.table("u")).status == 200
    assert await load(lake, ann, "u") == 403
    assert (await lake.call("DELETE", "/lake/namespaces/ns/tables/t", keys=ann)).status == 403
    policy = await lake.send("GET", "/lake?policy")
    assert json.loads(policy.body)["Statement"] == [grant]


async def test_policy_of_a_table_bucket_denies_access_to_its_tables(lake: Lake) -> None:
    ann = await lake.user("ann", allow("s3tables:*"))
    assert await load(lake, ann) == 200
    denial = {"Effect": "Deny", "Principal": "*", "Action": "s3tables:Get*", "Resource": f"{ARN}/table/*"}
    assert (await put_policy(lake, denial)).status == 204
    assert await load(lake, ann) == 403


async def test_only_policies_of_table_buckets_may_name_tables(lake: Lake) -> None:
    await lake.store.bucket("plain")
    grant = {
        "Effect": "Allow",
        "Principal": PEOPLE,
        "Action": "s3tables:GetTable",
        "Resource": f"{ARN.replace('lake', 'plain')}/*",
    }
    rejected = await put_policy(lake, grant, bucket="plain")
    assert (rejected.status, b"<Code>MalformedPolicy</Code>" in rejected.body) == (400, True)
    rejected = await put_policy(lake, grant)
    assert (rejected.status, b"Policy has invalid resource" in rejected.body) == (400, True)
    rejected = await put_policy(lake, {**grant, "Action": "s3tables:PutTablePolicy", "Resource": f"{ARN}/*"})
    assert (rejected.status, b"Policy has invalid action" in rejected.body) == (400, True)
    assert (await lake.send("GET", "/lake?policy")).status == 404


# -- lifecycle -------------------------------------------------------------------------------------------------------

ABORT = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
EXPIRE = "<Expiration><Days>1</Days></Expiration>"
PAST = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"


async def put_lifecycle(lake: Lake, *actions: str, bucket: str = "lake", status: str = "Enabled") -> Answer:
    rules = "".join(
        f"<Rule><ID>{number}</ID><Status>{status}</Status><Filter><Prefix>logs/</Prefix></Filter>{action}</Rule>"
        for number, action in enumerate(actions)
    )
    body = f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>".encode()
    return await lake.send("PUT", f"/{bucket}?lifecycle", body)


@pytest.mark.parametrize("actions", [(EXPIRE,), (PAST,), (ABORT, EXPIRE), (ABORT + PAST,)])
@pytest.mark.parametrize("status", ["Enabled", "Disabled"])
async def test_lifecycle_rules_that_expire_objects_are_rejected_on_a_table_bucket(
    lake: Lake, actions: tuple[str, ...], status: str
) -> None:
    rejected = await put_lifecycle(lake, *actions, status=status)
    assert rejected.status == 405
    assert b"<Code>MethodNotAllowed</Code>" in rejected.body
    assert b"table bucket" in rejected.body
    assert (await lake.send("GET", "/lake?lifecycle")).status == 404
    await lake.store.bucket("plain")
    assert (await put_lifecycle(lake, *actions, bucket="plain", status=status)).status == 200


async def test_lifecycle_rules_that_abort_uploads_are_accepted_on_a_table_bucket(lake: Lake) -> None:
    assert (await put_lifecycle(lake, ABORT)).status == 200
    assert b"AbortIncompleteMultipartUpload" in (await lake.send("GET", "/lake?lifecycle")).body


async def test_caller_without_permission_is_denied_before_rules_are_checked(lake: Lake) -> None:
    ann = await lake.user("ann", allow("s3:Get*"))
    body = f"<LifecycleConfiguration><Rule><Status>Enabled</Status>{EXPIRE}</Rule></LifecycleConfiguration>".encode()
    assert (await lake.send("PUT", "/lake?lifecycle", body, keys=ann)).status == 403


def test_rejected_expiration_is_in_the_inventory() -> None:
    (response,) = [
        response for feature, response, _ in inventory() if feature == "Lifecycle expiration in table buckets"
    ]
    assert response == "405 MethodNotAllowed"


# -- removal ---------------------------------------------------------------------------------------------------------


async def test_bucket_with_a_table_cannot_be_deleted(lake: Lake) -> None:
    document = json.dumps((await lake.call("GET", "/lake/namespaces/ns/tables/t")).document["metadata"]).encode()
    assert (await lake.call("DELETE", "/lake/namespaces/ns/tables/t")).status == 204
    await lake.store.bucket("other")
    assert (await lake.send("PUT", "/other/t.metadata.json", document)).status == 200
    registered = {"name": "t", "metadata-location": "s3://other/t.metadata.json"}
    assert (await lake.call("POST", "/lake/namespaces/ns/register", registered)).status == 200
    for row in await lake.store.meta.rows(
        "SELECT o.key FROM objects o JOIN buckets b ON b.id = o.bucket AND b.name = 'lake'"
    ):
        assert (await lake.send("DELETE", f"/lake/{row[0]}")).status == 204
    rejected = await lake.send("DELETE", "/lake")
    assert rejected.status == 409
    assert b"<Code>BucketNotEmpty</Code>" in rejected.body
    assert b"drop or purge them first" in rejected.body
    assert (await lake.call("DELETE", "/lake/namespaces/ns/tables/t")).status == 204
    assert (await lake.send("DELETE", "/lake")).status == 204
