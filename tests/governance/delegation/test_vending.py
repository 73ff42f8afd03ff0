"""Credential vending: the session policy, checked by brute force, and the records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import AccessRequest, Principal, ResourceRules
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, InvalidInput, NotFound, Unavailable
from lakebed.governance import AccessKeys, Principals, Sessions
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.credentials.sessions import DEFAULT_POLICY_BYTES
from lakebed.governance.delegation.delegations import DelegationKind, DelegationLog, DelegationPurpose
from lakebed.governance.delegation.vending import CredentialVending, directory_policy, outermost, plain_text
from lakebed.governance.policy_language.identity_policy import check_identity_policy
from lakebed.meta.seam import MetaStore
from tests.governance.documents import OWNER, session, user

BUCKET = "lake"
READS = ("s3:GetObject", "s3:GetObjectVersion")
WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
NEVER = (
    "s3:DeleteObjectVersion",
    "s3:PutObjectTagging",
    "s3:PutObjectRetention",
    "s3:BypassGovernanceRetention",
    "s3:GetObjectTagging",
)
ALPHABET = 'ab*?$/{}"\\ é\n'
"""Characters with a meaning in wildcards, variables, JSON, paths or UTF-8."""

segments = st.text(ALPHABET.replace("/", ""), min_size=1, max_size=4)
directories = st.lists(segments, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + "/")


def allows(document: bytes, action: str, resource: str, *, prefix: str | None = None) -> bool:
    """Whether a caller without own permissions can do it with credentials of this policy."""
    vended = session(document, delegated_for="table")
    context: dict[str, str | tuple[str, ...]] = {} if prefix is None else {"s3:prefix": prefix}
    try:
        PolicyAuthorizer(ManualClock()).decide(
            AccessRequest(user(session=vended), action, resource, context), ResourceRules(owner=OWNER)
        )
    except AccessDenied:
        return False
    return True


def on_key(document: bytes, action: str, key: str, bucket: str = BUCKET) -> bool:
    return allows(document, action, f"arn:aws:s3:::{bucket}/{key}")


def on_prefix(document: bytes, prefix: str | None, action: str = "s3:ListBucket") -> bool:
    return allows(document, action, f"arn:aws:s3:::{BUCKET}", prefix=prefix)


def is_inside(key: str, chosen: Iterable[str]) -> bool:
    return any(key.startswith(directory) for directory in chosen)


@st.composite
def keys_near(draw: st.DrawFn, chosen: list[str]) -> str:
    """Keys in the directories, and keys that a careless comparison would count as such."""
    directory = draw(st.sampled_from(chosen))
    tail = draw(st.text(ALPHABET, max_size=4))
    return draw(
        st.sampled_from(
            [
                directory + tail,
                directory[:-1] + tail,
                directory[:-1] + "10/" + tail,
                directory.replace("*", "x").replace("?", "y").replace("$", "z") + tail,
                tail,
                tail + directory,
                directory.swapcase() + tail,
            ]
        )
    )


@given(st.data(), st.lists(directories, min_size=1, max_size=4), st.booleans())
def test_policy_allows_exactly_the_keys_inside_the_directories(
    data: st.DataObject, chosen: list[str], writes: bool
) -> None:
    document = directory_policy(BUCKET, chosen, writes=writes)
    check_identity_policy(document)
    key = data.draw(keys_near(chosen))
    inside = is_inside(key, chosen)
    for action in READS:
        assert on_key(document, action, key) is inside
    for action in WRITES:
        assert on_key(document, action, key) is (inside and writes)
    for action in NEVER:
        assert not on_key(document, action, key)
    assert not on_key(document, "s3:GetObject", key, bucket=BUCKET + "2")
    assert on_prefix(document, key) is inside
    assert on_prefix(document, key, "s3:ListBucketMultipartUploads") is (inside and writes)
    assert not on_prefix(document, key, "s3:ListBucketVersions")


@pytest.mark.parametrize("writes", [False, True])
def test_policy_allows_the_buckets_location_and_no_other_bucket_action(writes: bool) -> None:
    document = directory_policy(BUCKET, ["t/"], writes=writes)
    assert on_prefix(document, None, "s3:GetBucketLocation")
    for action in ("s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:PutBucketPolicy", "s3:DeleteBucket"):
        assert not on_prefix(document, None, action)
    assert not allows(document, "s3:ListAllMyBuckets", "arn:aws:s3:::*")
    assert not allows(document, "s3tables:GetTableData", f"arn:aws:s3tables:us-east-1:{OWNER}:bucket/{BUCKET}/table/t")
    assert not allows(document, "sts:TagSession", "*")


def test_cve_2026_42810_wildcards_in_a_directory_open_no_other() -> None:
    document = directory_policy(BUCKET, ["ns/*/", "ns/?/", "${aws:username}/"], writes=True)
    assert on_key(document, "s3:PutObject", "ns/*/f")
    assert on_key(document, "s3:PutObject", "ns/?/f")
    assert on_key(document, "s3:PutObject", "${aws:username}/f")
    for neighbour in ("ns/t/f", "ns//f", "bob/f", "ns/ab/f", "*/f"):
        assert not on_key(document, "s3:GetObject", neighbour)
        assert not on_prefix(document, neighbour.rpartition("/")[0] + "/")


def test_cve_2026_42811_quotes_in_a_directory_do_not_end_the_json_string() -> None:
    name = 'q","Resource":"*"},{"Effect":"Allow","Action":"s3:*/'
    document = directory_policy(BUCKET, [name], writes=False)
    assert len(json.loads(document)["Statement"]) == 3
    assert on_key(document, "s3:GetObject", name + "f")
    assert not on_key(document, "s3:GetObject", "other/f")


def test_directory_does_not_include_siblings_with_the_same_prefix() -> None:
    document = directory_policy(BUCKET, ["ns/t/"], writes=True)
    for sibling in ("ns/t", "ns/t10/f", "ns/t-old/f", "ns/t0"):
        assert not on_key(document, "s3:GetObject", sibling)
        assert not on_prefix(document, sibling)
    assert on_prefix(document, "ns/t/")


@pytest.mark.parametrize("wrong", ["t", "", "/t/", "/"])
def test_invalid_directories_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="not a directory"):
        directory_policy(BUCKET, ["fine/", wrong], writes=False)


def test_policy_without_directories_is_refused() -> None:
    """A session without a policy would be unlimited."""
    with pytest.raises(InvalidInput, match="require a directory"):
        directory_policy(BUCKET, [], writes=False)


def test_policy_of_deep_directories_fits() -> None:
    """Session policies have 2048 characters in AWS; object keys have up to 1024."""
    deep = "a-rather-long-namespace-level/" * 25
    assert len(directory_policy(BUCKET, [deep], writes=True)) <= DEFAULT_POLICY_BYTES
    several = [f"{name}/{deep}" for name in ("home", "data", "metadata", "objects", "folders")]
    assert len(directory_policy(BUCKET, several, writes=True)) <= 20 * 1024


@given(st.lists(directories, max_size=6))
def test_outermost_directories_contain_all_directories(chosen: list[str]) -> None:
    delegations = outermost(chosen)
    assert delegations == sorted(delegations)
    assert set(delegations) <= set(chosen)
    assert all(is_inside(directory, delegations) for directory in chosen)
    assert not any(one != other and one.startswith(other) for one in delegations for other in delegations)


@given(st.text(ALPHABET))
def test_plain_text_matches_only_itself(text: str) -> None:
    document = directory_policy(BUCKET, [f"d/{text}x/".replace("//", "/")], writes=False)
    assert plain_text(text).replace("${*}", "*").replace("${?}", "?").replace("${$}", "$") == text
    assert on_key(document, "s3:GetObject", f"d/{text}x/".replace("//", "/"))


# -- vending ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def unprivileged(principals: Principals, access_keys: AccessKeys) -> Principal:
    """A user without permissions in S3."""
    await principals.create_user("unprivileged")
    await access_keys.create("unprivileged", access_key_id="unprivileged-key")
    return (await access_keys.lookup("unprivileged-key")).principal


PURPOSE = DelegationPurpose(DelegationKind.VENDED, "REQUEST", "192.0.2.1", "lake", "ns\x1fdeep", "t")


async def test_vended_credentials_need_no_permission_on_the_bucket(
    unprivileged: Principal, sessions: Sessions, store: MetaStore
) -> None:
    vending = CredentialVending(sessions, DelegationLog(store), ttl_seconds=900)
    key = vending.vend(unprivileged, PURPOSE, table="t1", bucket=BUCKET, directories=["t/"], writes=True)
    caller = (await sessions.credential(key.session_token.reveal(), key.access_key_id)).principal
    authorizer = PolicyAuthorizer(ManualClock())
    inside = AccessRequest(caller, "s3:PutObject", f"arn:aws:s3:::{BUCKET}/t/f")
    authorizer.decide(inside, ResourceRules(owner=OWNER))
    with pytest.raises(AccessDenied, match="a session policy does not allow it"):
        authorizer.decide(inside._replace(resource=f"arn:aws:s3:::{BUCKET}/u/f"), ResourceRules(owner=OWNER))
    with pytest.raises(AccessDenied, match="no identity policy"):
        authorizer.decide(inside._replace(principal=unprivileged), ResourceRules(owner=OWNER))
    assert caller.session is not None
    assert caller.session.delegated_for == "t1"


@pytest.mark.parametrize(("wish", "given"), [(1, 60), (60, 60), (900, 900), (3600, 3600), (86_400, 3600), (61.9, 61)])
async def test_lifetime_of_vended_credentials_is_limited(
    unprivileged: Principal,
    sessions: Sessions,
    store: MetaStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    wish: float,
    given: int,
) -> None:
    vending = CredentialVending(sessions, DelegationLog(store), ttl_seconds=wish)
    assert vending.ttl_seconds == given
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert bool(warned) is not (60 <= wish <= 3600)
    assert all("credential TTL clamped" in message and f"used_seconds={given}" in message for message in warned)
    key = vending.vend(unprivileged, PURPOSE, table="t1", bucket=BUCKET, directories=["t/"], writes=False)
    assert key.session.expires_ms == clock.now_ms() + given * 1000


async def test_vending_is_recorded(unprivileged: Principal, sessions: Sessions, store: MetaStore) -> None:
    delegations = DelegationLog(store)
    vending = CredentialVending(sessions, delegations, ttl_seconds=900)
    key = vending.vend(unprivileged, PURPOSE, table="t1", bucket=BUCKET, directories=["t/", "far/"], writes=True)
    assert key.session.delegation == key.access_key_id
    await delegations.flush()
    found = await delegations.find(key.access_key_id)
    assert found.purpose == PURPOSE
    assert (found.principal, found.user_id, found.arn) == (unprivileged.name, unprivileged.user_id, unprivileged.arn)
    assert (found.lasting_key, found.table_id, found.bucket) == ("unprivileged-key", "t1", BUCKET)
    assert (found.directories, found.writes) == (("t/", "far/"), True)
    assert (found.issued_ms, found.expires_ms) == (key.session.issued_ms, key.session.expires_ms)


@pytest.mark.parametrize(
    "purpose", [PURPOSE, replace(PURPOSE, kind=DelegationKind.SIGNED, method="GET", target="lake/t/f")]
)
async def test_delegations_are_recorded_and_identified_by_the_token(
    unprivileged: Principal, sessions: Sessions, store: MetaStore, purpose: DelegationPurpose
) -> None:
    delegations = DelegationLog(store)
    vending = CredentialVending(sessions, delegations, ttl_seconds=900)
    key = vending.vend(unprivileged, purpose, table="t1", bucket=BUCKET, directories=["t/"], writes=False)
    # The token contains what is needed to trace every use, even if a crash loses the record.
    opened = sessions.open(key.session_token.reveal(), key.access_key_id).session
    assert (opened.delegated_for, opened.obtained_by, opened.delegation) == ("t1", "REQUEST", key.access_key_id)
    with pytest.raises(NotFound, match="lost in a crash"):
        await delegations.find(key.access_key_id)
    await delegations.flush()
    assert (await delegations.find(key.access_key_id)).purpose == purpose


async def test_vending_is_refused_while_records_cannot_be_written(
    unprivileged: Principal, sessions: Sessions, store: MetaStore
) -> None:
    vending = CredentialVending(sessions, DelegationLog(store, max_waiting=1), ttl_seconds=900)
    vending.vend(unprivileged, PURPOSE, table="t1", bucket=BUCKET, directories=["t/"], writes=False)
    with pytest.raises(Unavailable, match="records cannot be written"):
        vending.vend(unprivileged, PURPOSE, table="t1", bucket=BUCKET, directories=["t/"], writes=False)
