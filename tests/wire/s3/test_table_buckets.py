"""What S3 clients may set on a table bucket, and what it does there."""

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


async def test_policy_of_a_table_bucket_opens_its_tables(lake: Lake) -> None:
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
    shown = await lake.send("GET", "/lake?policy")
    assert json.loads(shown.body)["Statement"] == [grant]


async def test_policy_of_a_table_bucket_closes_its_tables(lake: Lake) -> None:
    ann = await lake.user("ann", allow("s3tables:*"))
    assert await load(lake, ann) == 200
    denial = {"Effect": "Deny", "Principal": "*", "Action": "s3tables:Get*", "Resource": f"{ARN}/table/*"}
    assert (await put_policy(lake, denial)).status == 204
    assert await load(lake, ann) == 403


async def test_policy_speaks_of_tables_on_table_buckets_only(lake: Lake) -> None:
    await lake.store.bucket("plain")
    grant = {
        "Effect": "Allow",
        "Principal": PEOPLE,
        "Action": "s3tables:GetTable",
        "Resource": f"{ARN.replace('lake', 'plain')}/*",
    }
    refused = await put_policy(lake, grant, bucket="plain")
    assert (refused.status, b"<Code>MalformedPolicy</Code>" in refused.body) == (400, True)
    refused = await put_policy(lake, grant)
    assert (refused.status, b"Policy has invalid resource" in refused.body) == (400, True)
    refused = await put_policy(lake, {**grant, "Action": "s3tables:PutTablePolicy", "Resource": f"{ARN}/*"})
    assert (refused.status, b"Policy has invalid action" in refused.body) == (400, True)
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
async def test_rules_that_expire_objects_are_refused_on_a_table_bucket(
    lake: Lake, actions: tuple[str, ...], status: str
) -> None:
    refused = await put_lifecycle(lake, *actions, status=status)
    assert refused.status == 405
    assert b"<Code>MethodNotAllowed</Code>" in refused.body
    assert b"table bucket" in refused.body
    assert (await lake.send("GET", "/lake?lifecycle")).status == 404
    await lake.store.bucket("plain")
    assert (await put_lifecycle(lake, *actions, bucket="plain", status=status)).status == 200


async def test_rules_that_abort_uploads_are_taken_on_a_table_bucket(lake: Lake) -> None:
    assert (await put_lifecycle(lake, ABORT)).status == 200
    assert b"AbortIncompleteMultipartUpload" in (await lake.send("GET", "/lake?lifecycle")).body


async def test_who_may_not_set_rules_is_told_so_whatever_they_are(lake: Lake) -> None:
    ann = await lake.user("ann", allow("s3:Get*"))
    body = f"<LifecycleConfiguration><Rule><Status>Enabled</Status>{EXPIRE}</Rule></LifecycleConfiguration>".encode()
    assert (await lake.send("PUT", "/lake?lifecycle", body, keys=ann)).status == 403


def test_what_is_refused_is_on_the_printed_list() -> None:
    (answer,) = [answer for feature, answer, _ in inventory() if feature == "Lifecycle expiration in table buckets"]
    assert answer == "405 MethodNotAllowed"


# -- removal ---------------------------------------------------------------------------------------------------------


async def test_bucket_is_not_deleted_while_a_table_is_of_it(lake: Lake) -> None:
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
    refused = await lake.send("DELETE", "/lake")
    assert refused.status == 409
    assert b"<Code>BucketNotEmpty</Code>" in refused.body
    assert b"drop or purge them first" in refused.body
    assert (await lake.call("DELETE", "/lake/namespaces/ns/tables/t")).status == 204
    assert (await lake.send("DELETE", "/lake")).status == 204
