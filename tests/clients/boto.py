"""boto3 clients of a running server, and checks of their errors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import boto3
import botocore.session
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.fixtures.server import RunningServer

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Keys:
    """The credentials that a client signs with."""

    access_key: str
    secret_key: str
    session_token: str | None = None


ANONYMOUS = Keys("", "")


def root_keys(server: RunningServer) -> Keys:
    return Keys(server.access_key, server.secret_key)


class Connect(Protocol):
    """Creates clients that are closed after the test. Any: boto3's clients are created at run time."""

    def __call__(
        self,
        server: RunningServer,
        keys: Keys | None = None,
        *,
        service: str = "s3",
        endpoint: str | None = None,
        verify: str | None = None,
        **config: Any,
    ) -> Any: ...


@contextmanager
def connected(
    server: RunningServer,
    keys: Keys | None = None,
    *,
    service: str = "s3",
    endpoint: str | None = None,
    verify: str | None = None,
    **config: Any,  # Any: options of botocore's Config
) -> Iterator[Any]:  # Any: boto3's clients are created at run time
    """A client, by default as root, with the SDK's defaults except path-style addresses and Signature Version 4.

    By default, botocore presigns URLs for us-east-1 with Signature Version 2, which is not supported.
    """
    keys = root_keys(server) if keys is None else keys
    defaults: dict[str, Any] = {  # Any: likewise
        "s3": {"addressing_style": "path"},
        "retries": {"total_max_attempts": 1},
    }
    if service == "s3":
        defaults["signature_version"] = UNSIGNED if keys is ANONYMOUS else "s3v4"
    client = _session().client(
        service,
        region_name=REGION,
        endpoint_url=endpoint or server.endpoint,
        aws_access_key_id=keys.access_key or None,
        aws_secret_access_key=keys.secret_key or None,
        aws_session_token=keys.session_token,
        verify=verify,
        config=Config(**{**defaults, **config}),
    )
    with closing(client):
        yield client


@cache
def _session() -> boto3.session.Session:
    """One session, so that service models are loaded once, without the user's AWS configuration files."""
    inner = botocore.session.get_session()
    inner.set_config_variable("config_file", os.devnull)
    inner.set_config_variable("credentials_file", os.devnull)
    return boto3.session.Session(botocore_session=inner)


@contextmanager
def refused(code: str, status: int) -> Iterator[None]:
    """Expect this S3 error. A HEAD response has no body: its code is the status."""
    with pytest.raises(ClientError) as caught:
        yield
    assert code_and_status(caught.value) == (code, status)


def code_and_status(error: ClientError) -> tuple[str, int]:
    response: Mapping[str, Any] = error.response  # Any: botocore's type of a parsed response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def all_keys(client: Any, bucket: str, prefix: str = "") -> list[str]:  # Any: a boto3 client
    """Every key under a prefix, from the SDK's paginator."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def body_of(client: Any, bucket: str, key: str, **options: Any) -> bytes:  # Any: a boto3 client, and its parameters
    body: bytes = client.get_object(Bucket=bucket, Key=key, **options)["Body"].read()
    return body
