from __future__ import annotations

import pickle

import pytest

from lakebed.client.access import DEFAULT_ENDPOINT, ServerAccess, find_access
from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret

AWS = {"AWS_ACCESS_KEY_ID": "aws", "AWS_SECRET_ACCESS_KEY": "aws-secret", "AWS_SESSION_TOKEN": "aws-token"}
OWN = {"LAKEBED_ACCESS_KEY": "own", "LAKEBED_SECRET_KEY": "own-secret"}
ROOT = {"LAKEBED_ROOT_ACCESS_KEY": "root", "LAKEBED_ROOT_SECRET_KEY": "root-secret"}


def test_environment_completes_missing_arguments() -> None:
    found = find_access(
        environ={
            **AWS,
            "LAKEBED_ENDPOINT": "https://lake.example",
            "AWS_REGION": "eu-west-1",
            "AWS_CA_BUNDLE": "ca.pem",
        }
    )
    assert found == ServerAccess(
        "https://lake.example", "aws", Secret("aws-secret"), Secret("aws-token"), "eu-west-1", "ca.pem"
    )
    assert find_access("http://[::1]:9000/", region="r", environ=AWS).endpoint == "http://[::1]:9000"
    assert find_access(environ=AWS).endpoint == DEFAULT_ENDPOINT
    assert find_access(environ=AWS).catalog_uri == f"{DEFAULT_ENDPOINT}/iceberg"
    assert find_access(environ=AWS).s3.endpoint == DEFAULT_ENDPOINT


def test_s3_can_have_a_separate_endpoint() -> None:
    by_environment = find_access(environ={**AWS, "LAKEBED_S3_ENDPOINT": "http://s3.example:9000/"})
    assert (by_environment.endpoint, by_environment.s3.endpoint) == (DEFAULT_ENDPOINT, "http://s3.example:9000")
    given = find_access("http://lake.example", s3_endpoint="http://s3.example", environ=AWS)
    assert (given.catalog_uri, given.s3.endpoint) == ("http://lake.example/iceberg", "http://s3.example")
    assert given.s3.access_key_id == given.access_key_id


def test_access_key_is_used_with_its_own_secret_and_token() -> None:
    given = find_access(access_key_id="given", secret_access_key="given-secret", environ={**AWS, **OWN})
    assert (given.access_key_id, given.secret_access_key, given.session_token) == (
        "given",
        Secret("given-secret"),
        None,
    )
    own = find_access(environ={**AWS, **OWN, **ROOT})
    assert (own.access_key_id, own.secret_access_key, own.session_token) == ("own", Secret("own-secret"), None)
    assert find_access(environ={**AWS, **ROOT}).access_key_id == "aws"
    assert find_access(environ=ROOT).access_key_id == "root"


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_key_without_secret_names_the_missing_variable(missing: str) -> None:
    with pytest.raises(InvalidSetting, match=missing):
        find_access(environ={name: value for name, value in {**AWS, **ROOT}.items() if name != missing})


def test_missing_credentials_name_the_variables_to_set() -> None:
    with pytest.raises(InvalidSetting, match="set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY or AWS_ACCESS_KEY_ID"):
        find_access(environ={})
    with pytest.raises(InvalidSetting, match="set together"):
        find_access(access_key_id="alone", environ=AWS)


@pytest.mark.parametrize(
    "endpoint",
    ["lake.example:9000", "ftp://lake.example", "http://", "http://lake/iceberg", "http://h:port", "http://h?q"],
)
def test_invalid_endpoint_is_rejected(endpoint: str) -> None:
    with pytest.raises(InvalidSetting, match="expected an endpoint such as"):
        find_access(endpoint, environ=AWS)


def test_password_in_the_endpoint_is_rejected_and_not_quoted() -> None:
    with pytest.raises(InvalidSetting) as refused:
        find_access("http://user:hidden@lake.example", environ=AWS)
    assert "hidden" not in str(refused.value)


def test_access_can_be_pickled_and_its_repr_has_no_secret() -> None:
    found = find_access(environ=AWS)
    assert pickle.loads(pickle.dumps(found)) == found
    assert "aws-secret" not in repr(found)
    assert "aws-token" not in repr(found)
