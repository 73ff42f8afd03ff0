from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from lakebed.catalog.external.federation.documents import (
    CREDENTIALS_ENDPOINT,
    encode_document,
    filter_config,
    filter_credentials,
    filter_table,
    mark_etag,
    read_commit,
    read_creation,
    read_transaction,
    unmark_etags,
)
from lakebed.catalog.identifiers import Identifier
from lakebed.core.errors import InvalidInput

T = Identifier(("ns",), "t")
HERE = "v1/near/namespaces/ns/tables/t/credentials"
KEYS = {
    "s3.access-key-id": "a",
    "s3.secret-access-key": "s3cret",
    "s3.session-token": "s3cret",
    "gcs.oauth2.token": "s3cret",
    "adls.sas-token.account": "s3cret",
}
PLAIN = {"s3.endpoint": "http://far", "client.region": "r", "s3.path-style-access": "true"}
SESSION = {
    "token": "s3cret",
    "credential": "s3cret",
    "oauth2-server-uri": "http://far/token",
    "header.Authorization": "s3cret",
    "rest.sigv4-enabled": "true",
    "uri": "http://far",
    "signer.uri": "http://far",
    "s3.signer.uri": "http://far",
    "s3.remote-signing-enabled": "true",
    "auth.session-timeout-ms": "1",
}

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def test_commit_is_read_for_authorization() -> None:
    body = {
        "identifier": {"namespace": ["ns"], "name": "t"},
        "requirements": [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "u"}],
        "updates": [{"action": "add-schema", "schema": {"deep": [1, 2.5]}}, {"action": "of-the-future"}],
        "beyond": {"the": "contract"},
    }
    change = read_commit(json.dumps(body).encode(), T)
    assert change.creates
    assert change.kinds == ("add-schema", "of-the-future")
    assert json.loads(encode_document(change.document)) == body


@pytest.mark.parametrize(
    "body",
    [
        b'{"updates": [{"action": "set-properties", "action": "remove-snapshots"}]}',
        b'{"updates": [{"action": "remove-snapshots"}], "updates": [{"action": "set-properties"}]}',
        b'{"requirements": [{"type": "x", "type": "assert-create"}], "updates": []}',
        b'{"identifier": {"namespace": ["other"], "namespace": ["ns"], "name": "x", "name": "t"}, "updates": []}',
    ],
)
def test_document_is_encoded_from_what_was_decoded(body: bytes) -> None:
    change = read_commit(body, T)
    sent = encode_document(change.document)
    assert read_commit(sent, T) == change
    # No field appears twice, so parsers cannot disagree on its value.
    pairs: list[list[str]] = []
    json.loads(sent, object_pairs_hook=lambda found: pairs.append([name for name, _ in found]))
    assert all(len(names) == len(set(names)) for names in pairs)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"updates": {}}',
        b'{"updates": [7]}',
        b'{"requirements": "x"}',
        b'{"updates": [{"action": 7}]}',
        b'{"identifier": {"namespace": ["ns"], "name": "other"}}',
        b'{"identifier": null}',
        b'{"identifier": {"name": "t"}}',
    ],
)
def test_invalid_commits_are_rejected(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_commit(body, T)


def test_commits_of_a_transaction_require_identifiers() -> None:
    change = {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": []}
    body = json.dumps({"table-changes": [change, change]}).encode()
    assert [one.identifier for one in read_transaction(body)] == [T, T]
    none: list[dict[str, Any]] = []
    wrong = [{}, {"table-changes": none}, {"table-changes": [{}]}, {"table-changes": [change] * 1025}]
    for one in wrong:
        with pytest.raises(InvalidInput):
            read_transaction(json.dumps(one).encode())


@given(st.binary(max_size=100) | documents.map(lambda one: json.dumps(one).encode()))
def test_noise_is_rejected_and_never_crashes(noise: bytes) -> None:
    for read in (read_creation, lambda body: read_commit(body, T), read_transaction):
        try:
            read(noise)
        except InvalidInput:
            continue


@given(
    st.dictionaries(st.text(max_size=10), documents, max_size=4),
    st.text(max_size=10),
    st.sampled_from([True, False, None]),
)
def test_creation_is_forwarded_whole(more: dict[str, Any], name: str, staged: bool | None) -> None:
    body = {**more, "name": name, "stage-create": staged}
    found, is_staged, sent = read_creation(json.dumps(body).encode())
    assert (found, is_staged) == (name, bool(staged))
    assert json.loads(sent) == body


# -- responses ----------------------------------------------------------------------------------------------------


def test_response_without_credentials_contains_no_access() -> None:
    assert (
        filter_config({**KEYS, **PLAIN, **SESSION, "x": "s3cret"}, with_credentials=False, credentials_path=HERE)
        == PLAIN
    )


def test_response_with_credentials_contains_no_session_settings() -> None:
    config = {**KEYS, **PLAIN, **SESSION, CREDENTIALS_ENDPOINT: "v1/far/x/credentials?y=z"}
    shown = filter_config(config, with_credentials=True, credentials_path=HERE)
    assert shown == {**KEYS, **PLAIN, CREDENTIALS_ENDPOINT: f"{HERE}?y=z"}


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=5), max_size=5))
def test_unknown_settings_are_removed_without_credentials(config: dict[str, str]) -> None:
    shown = filter_config(config, with_credentials=False, credentials_path=HERE)
    assert shown.items() <= config.items()
    assert shown.keys() <= {
        "adls.connection-string-host",
        "client.region",
        "gcs.project-id",
        "gcs.service.host",
        "io-impl",
        "py-io-impl",
        "s3.endpoint",
        "s3.path-style-access",
        "s3.region",
        "s3.use-arn-region-enabled",
    }


def test_metadata_is_forwarded_unchanged() -> None:
    metadata = b'{"big": 123456789012345678901234567890, "float": 1.0, "twice": 1, "twice": 2}'
    credentials = [{"prefix": "s3://x", "config": {**KEYS, "token": "s3cret-of-a-session"}}]
    answer = {
        "metadata": Raw(metadata),
        "config": Raw(msgspec.json.encode({**KEYS, "odd": 7})),
        "storage-credentials": Raw(msgspec.json.encode(credentials)),
        "more": Raw(b"[1]"),
    }
    bare = filter_table(answer, with_credentials=False, credentials_path=HERE)
    assert bytes(bare["metadata"]) == metadata
    assert json.loads(bytes(bare["config"])) == {}
    assert "storage-credentials" not in bare
    assert b"s3cret" not in encode_document(bare)
    whole = filter_table(answer, with_credentials=True, credentials_path=HERE)
    assert json.loads(bytes(whole["config"])) == KEYS
    assert b"s3cret-of-a-session" not in encode_document(whole)
    (credential,) = json.loads(bytes(filter_credentials(whole["storage-credentials"], HERE)))
    assert credential == {"prefix": "s3://x", "config": KEYS}


@pytest.mark.parametrize("tag", ['"abc"', 'W/"abc"', '""', '"a;k"'])
def test_entity_tag_matches_for_the_same_kind_of_response(tag: str) -> None:
    for mark, other in (("k", "n"), ("n", "k")):
        marked = mark_etag(tag, mark)
        assert marked != tag
        assert unmark_etags(marked, mark) == tag
        assert unmark_etags(marked, other) == ""
        assert unmark_etags(f'"x", {marked}', mark) == tag
    assert unmark_etags("*", "k") == ""


@given(st.binary(max_size=40) | documents.map(lambda one: json.dumps(one).encode()))
def test_invalid_settings_and_credentials_are_removed(noise: bytes) -> None:
    answer = {"metadata": Raw(b"{}"), "config": Raw(noise), "storage-credentials": Raw(noise)}
    shown = filter_table(answer, with_credentials=True, credentials_path=HERE)
    assert isinstance(json.loads(bytes(shown["config"])), dict)
    assert isinstance(json.loads(bytes(shown["storage-credentials"])), list)
