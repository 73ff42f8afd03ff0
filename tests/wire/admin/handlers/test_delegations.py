"""The trace of access delegation: its records, paging and permissions."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.governance.delegation.delegated_accesses import AccessCounter
from lakebed.server.metrics.instruments import access_trace
from tests.clients.boto import Keys
from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.tables_with_data import message
from tests.wire.iceberg.lake import HOST, ROOT_KEYS, allow, keys_in

TABLE = "/lake/namespaces/ns/tables/t"


async def vended(admin: Admin, keys: Keys = ROOT_KEYS) -> Keys:
    answer = await admin.lake.call("GET", f"{TABLE}/credentials", keys=keys)
    await admin.lake.trace.flush()
    return keys_in(answer.document["storage-credentials"][0]["config"])


async def table_directory(admin: Admin) -> str:
    """The table's directory, as a path in the object store."""
    loaded = await admin.lake.call("GET", TABLE)
    location: str = loaded.document["metadata"]["location"]
    return "/" + location.removeprefix("s3://")


async def read(admin: Admin, path: str) -> Any:  # Any: JSON
    answer = await admin.call("GET", path)
    assert answer.status == 200, answer.body
    return answer.document


async def test_vended_credentials_are_traced_to_principal_and_table(admin: Admin) -> None:
    bob = await admin.lake.user("bob", allow("s3tables:GetTableData"))
    keys = await vended(admin, bob)
    found = await read(admin, f"/delegations/{keys.access_key}")
    now_ms = admin.lake.clock.now_ms()
    directory = (await table_directory(admin))[1:]
    user = await admin.lake.principals.user("bob")
    table_id = found.pop("table-id")
    assert table_id
    assert found == {
        "id": keys.access_key,
        "kind": "vended-credentials",
        "principal": "bob",
        "user-id": user.user_id,
        "arn": user.arn,
        "obtained-with": bob.access_key,
        "request-id": "R1",
        "remote": "127.0.0.1",
        "catalog": "lake",
        "namespace": ["ns"],
        "table": "t",
        "prefixes": [f"s3://{directory}/"],
        "actions": ["read"],
        "issued-ms": now_ms,
        "expires-ms": now_ms + 900_000,
    }
    assert keys.secret_key not in str(found)


@pytest.mark.parametrize("endpoint", [f"{TABLE}/sign", "/aws/s3/sign"])
async def test_every_signature_is_traced_with_its_request(admin: Admin, endpoint: str) -> None:
    file = f"{await table_directory(admin)}/f?partNumber=1&uploadId=u"
    document = {"region": "us-east-1", "uri": f"http://{HOST}{file}", "method": "PUT", "headers": {}}
    ids = []
    for _ in range(2):
        signed = await admin.lake.call("POST", endpoint, document)
        assert signed.status == 200, signed.body
        authorization = signed.document["headers"]["Authorization"][0]
        ids.append(authorization.partition("Credential=")[2].partition("/")[0])
    assert ids[0] != ids[1]
    # Signatures are recorded in batches.
    assert (await admin.call("GET", f"/delegations/{ids[1]}")).status == 404
    await admin.lake.trace.flush()
    found = await read(admin, f"/delegations/{ids[1]}")
    assert (found["kind"], found["signed-request"]) == ("remote-signing", f"PUT {file[1:]}")
    assert (found["table"], found["actions"]) == ("t", ["read", "write"])


async def test_requests_are_traced_by_access_key_and_by_object(admin: Admin) -> None:
    lake, path = admin.lake, f"{await table_directory(admin)}/some%20file"
    keys = await vended(admin)
    await lake.send("PUT", path, b"some bytes", keys=keys)
    for _ in range(3):
        assert (await lake.send("GET", path, keys=keys)).body == b"some bytes"
    directory = (await table_directory(admin)).removeprefix("/lake/")
    await lake.send("GET", f"/lake?list-type=2&prefix={directory}/", keys=keys)
    await lake.send("GET", "/lake/loose", keys=keys)
    # Root reads without delegation.
    await lake.send("GET", path)
    await lake.trace.flush()
    done = (await read(admin, f"/delegations/{keys.access_key}/accesses"))["accesses"]
    assert {(one["operation"], one["status"], one["key"], one["requests"]) for one in done} == {
        ("PutObject", 200, f"{directory}/some file", 1),
        ("GetObject", 200, f"{directory}/some file", 3),
        ("ListObjectsV2", 200, f"{directory}/", 1),
        ("GetObject", 403, "loose", 1),
    }
    found = (await read(admin, f"/object-accesses?bucket=lake&key={directory}/some%20file"))["accesses"]
    assert [(one["operation"], one["delegation"]) for one in found] == [
        ("GetObject", keys.access_key),
        ("PutObject", keys.access_key),
    ]
    assert found[0]["sent-bytes"] == 30
    assert (found[0]["principal"], found[0]["catalog"], found[0]["namespace"], found[0]["table"]) == (
        "root",
        "lake",
        ["ns"],
        "t",
    )
    assert (found[1]["received-bytes"], found[1]["request-id"]) == (10, "R1")


async def test_events_of_writes_have_the_delegation(admin: Admin) -> None:
    keys = await vended(admin)
    await admin.lake.send("PUT", f"{await table_directory(admin)}/f", b"1", keys=keys)
    await admin.lake.send("PUT", f"{await table_directory(admin)}/g", b"1")
    events = (await read(admin, "/events?kind=ObjectCreated*"))["events"]
    assert [event["payload"].get("delegation") for event in events[-2:]] == [keys.access_key, None]


async def test_delegations_are_paged_newest_first(admin: Admin) -> None:
    ids = [(await vended(admin)).access_key for _ in range(5)]
    assert [one["id"] for one in await admin.pages("/delegations", "delegations")] == ids[::-1]


async def test_delegations_are_filtered_by_principal_table_and_request(admin: Admin) -> None:
    bob = await admin.lake.user("bob", allow("s3tables:GetTableData"))
    await admin.lake.table("u")
    of_root, of_bob = (await vended(admin)).access_key, (await vended(admin, bob)).access_key

    async def ids(query: str) -> list[str]:
        return [one["id"] for one in (await read(admin, f"/delegations?{query}"))["delegations"]]

    assert await ids("principal=bob") == [of_bob]
    assert await ids("catalog=lake&namespace=ns&table=t") == [of_bob, of_root]
    assert await ids("catalog=lake&namespace=ns&table=u") == []
    assert await ids("catalog=pond") == []
    assert await ids("request-id=R1&principal=root") == [of_root]


async def test_accesses_are_paged(admin: Admin) -> None:
    keys = await vended(admin)
    for name in "abcde":
        await admin.lake.send("PUT", f"{await table_directory(admin)}/{name}", b"", keys=keys)
    await admin.lake.trace.flush()
    accesses = await admin.pages(f"/delegations/{keys.access_key}/accesses", "accesses")
    assert [one["key"][-1] for one in accesses] == list("abcde")


@pytest.mark.parametrize(
    "path",
    [
        "/delegations?namespace=ns",
        "/delegations?catalog=lake&table=t",
        "/delegations?unknown=1",
        "/delegations?page-size=0",
        "/delegations?page-token=none",
        "/object-accesses",
        "/object-accesses?key=f",
        "/object-accesses?bucket=lake&bucket=pond",
    ],
)
async def test_invalid_requests_are_refused(admin: Admin, path: str) -> None:
    assert (await admin.call("GET", path)).status == 400


async def test_page_token_of_another_list_is_refused(admin: Admin) -> None:
    for _ in range(2):
        await vended(admin)
    token = (await read(admin, "/delegations?page-size=1"))["next-page-token"]
    refused = await admin.call("GET", f"/delegations?page-size=1&catalog=lake&page-token={token}")
    assert refused.status == 400


async def test_unknown_access_key_is_not_found(admin: Admin) -> None:
    refused = await admin.call("GET", "/delegations/LKBTUNKNOWN")
    assert (refused.status, "no delegation of that id" in message(refused)) == (404, True)
    assert await read(admin, "/delegations/LKBTUNKNOWN/accesses") == {"accesses": []}


def restart(admin: Admin) -> AccessCounter:
    """Replace the access counter, as if the server had been killed before writing its last records."""
    counter = AccessCounter(admin.lake.store.meta, admin.lake.clock)
    admin.lake.s3._trace = access_trace(counter)
    return counter


async def test_signature_without_a_record_is_traced_by_its_token(admin: Admin) -> None:
    bob = await admin.lake.user("bob", allow("s3tables:GetTableData", "s3tables:PutTableData"))
    path = f"{await table_directory(admin)}/f"
    document = {"region": "us-east-1", "uri": f"http://{HOST}{path}", "method": "PUT", "headers": {}}
    signed = (await admin.lake.call("POST", f"{TABLE}/sign", document, keys=bob)).document["headers"]
    sent = {name: ",".join(values) for name, values in signed.items()}
    counter = restart(admin)
    assert (await admin.lake.send("PUT", path, b"x", sent, keys=None)).status == 200
    await counter.flush()
    (found,) = (await read(admin, f"/object-accesses?bucket=lake&key={path.removeprefix('/lake/')}"))["accesses"]
    assert (found["principal"], found["request-id"], found["operation"]) == ("bob", "R1", "PutObject")
    assert found["table-id"]
    assert "table" not in found
    assert found["issue-recorded"] is False


async def test_credentials_without_a_record_are_traced_by_their_token(admin: Admin) -> None:
    bob = await admin.lake.user("bob", allow("s3tables:GetTableData", "s3tables:PutTableData"))
    recorded = await vended(admin)
    table_id = (await read(admin, f"/delegations/{recorded.access_key}"))["table-id"]
    answer = await admin.lake.call("GET", f"{TABLE}/credentials", keys=bob)
    keys = keys_in(answer.document["storage-credentials"][0]["config"])
    path = f"{await table_directory(admin)}/f"
    counter = restart(admin)
    for each in (keys, recorded):
        assert (await admin.lake.send("PUT", path, b"x", keys=each)).status == 200
    await counter.flush()
    found = (await read(admin, f"/object-accesses?bucket=lake&key={path.removeprefix('/lake/')}"))["accesses"]
    by_key = {one["delegation"]: one for one in found}
    lost = by_key[keys.access_key]
    assert (lost["principal"], lost["request-id"], lost["table-id"]) == ("bob", "R1", table_id)
    assert lost["issue-recorded"] is False
    # Fields that only the record has are absent.
    assert not lost.keys() & {"kind", "catalog", "namespace", "table"}
    assert by_key[recorded.access_key]["issue-recorded"] is True
    assert by_key[recorded.access_key]["kind"] == "vended-credentials"
    (done,) = (await read(admin, f"/delegations/{keys.access_key}/accesses"))["accesses"]
    assert done == lost
    refused = await admin.call("GET", f"/delegations/{keys.access_key}")
    assert (refused.status, "lost in a crash" in message(refused)) == (404, True)
    # The event of the write has the access key.
    events = (await read(admin, "/events?kind=ObjectCreated*"))["events"]
    assert keys.access_key in [event["payload"].get("delegation") for event in events]


async def test_trace_requires_permission_to_read_the_audit_log(admin: Admin) -> None:
    keys = await vended(admin)
    auditor = await admin.lake.user("auditor", allow("lakebed:ReadAudit"))
    other = await admin.lake.user("other", allow("lakebed:ReadEvents", "s3tables:*", "s3:*"))
    for path in (
        "/delegations",
        f"/delegations/{keys.access_key}",
        f"/delegations/{keys.access_key}/accesses",
        "/object-accesses?bucket=lake&key=f",
    ):
        assert (await admin.call("GET", path, keys=auditor)).status == 200
        assert (await admin.call("GET", path, keys=other)).status == 403
        assert (await admin.call("GET", path, keys=None)).status == 401
