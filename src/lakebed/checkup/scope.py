"""The steps with scoped credentials: issued by the store's STS, and used inside and outside their directory.

The session policy resembles those that catalogs write for a table, in elements that every store supports. The denials
matter: a store that accepts the policy and does not enforce it opens every table to every reader of one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode

from lakebed.core.errors import AccessDenied, LakebedError, NotFound
from lakebed.core.secrets import Secret
from lakebed.governance.delegation.vending import plain_text
from lakebed.storage.credentials import Credentials, HostEnvironment, RefreshingCredentials
from lakebed.storage.credentials.inline import InlineSource
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import S3Options, connect_s3
from lakebed.storage.seam import Key, ObjectStorage

from .model import StepFailed, StepFinding, StepOutcome
from .objects import SMALL
from .store_client import StoreClient, StoreResponse
from .target import CheckedStore

INSIDE: Final = Key("scope/one")
BESIDE: Final = Key("scope10/one")
"""A directory whose name starts with the same letters."""
OUTSIDE: Final = Key("outside")
_DIRECTORY: Final = "scope/"
_SECONDS: Final = 900
_API_VERSION: Final = "2011-06-15"
_FORM: Final = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}

_WITHOUT_STS: Final = (
    "this store cannot issue credentials limited to one table, so engines that access it directly"
    " need long-lived keys. As Lakebed's storage backend it does not need to: engines use credentials or signatures"
    " of Lakebed, which enforces their scope"
)


class ScopeSteps:
    """The steps that use STS credentials."""

    def __init__(self, target: CheckedStore, client: StoreClient, host_environment: HostEnvironment) -> None:
        self._target = target
        self._client = client
        self._surroundings = host_environment
        self._confined: Credentials | None = None

    async def assume_role(self, keys: Credentials) -> StepFinding:
        """Request credentials for one directory, as a catalog would."""
        options = self._target.options
        policy = scope_policy(options.bucket, f"{options.key_prefix}{_DIRECTORY}")
        fields = {
            "Action": "AssumeRole",
            "Version": _API_VERSION,
            "RoleSessionName": "lakebed-check",
            "DurationSeconds": str(_SECONDS),
            "Policy": policy,
        }
        if self._target.role_arn is not None:
            fields["RoleArn"] = self._target.role_arn
        if self._target.external_id is not None:
            fields["ExternalId"] = self._target.external_id
        if self._target.token_source is not None:
            keys = await self._target.token_source.load() or keys
        where = f"{self._target.token_service}/"
        response = await self._client.signed(
            "POST", where, keys, headers=_FORM, body=urlencode(fields).encode(), service="sts"
        )
        if response.status == 200 and response.document == "AssumeRoleResponse":
            self._confined = _keys_in(response)
            return StepFinding(f"credentials for {_SECONDS // 60} minutes, limited to one directory")
        return self._without(response)

    async def check_scope(self, on_key: Callable[[Key], None]) -> StepFinding:
        """Check that the credentials open their directory and nothing else. `on_key` is called with every key."""
        if self._confined is None:
            raise RuntimeError("scoped credentials used before they were requested")
        for key in (INSIDE, BESIDE, OUTSIDE):
            on_key(key)
        async with opened(self._target.options, self._confined, self._surroundings) as confined:
            refusals = await check_confinement(confined, INSIDE, outside=SMALL, beside=(BESIDE, OUTSIDE))
        return StepFinding(f"1 directory accessible, {refusals} attempts outside it denied")

    def _without(self, response: StoreResponse) -> StepFinding:
        is_sts = response.document == "ErrorResponse"
        words = f"{response.status} {response.code} {response.message}".strip()
        if self._target.role_arn is not None or self._target.sts_endpoint is not None:
            raise StepFailed(
                f"AssumeRole failed: {words}" if is_sts else f"no STS at this endpoint: {words}",
                "Check that the role exists and trusts these credentials, and check --sts-endpoint.",
            )
        if is_sts:
            return StepFinding(
                "STS issues no credentials for this principal",
                StepOutcome.ABSENT,
                f"{words}. Until it does, {_WITHOUT_STS}",
                "If the store requires a role, pass --role-arn.",
            )
        return StepFinding("the store has no STS", StepOutcome.ABSENT, _WITHOUT_STS)


def scope_policy(bucket: str, directory: str) -> str:
    """A session policy for one directory."""
    whole, inside = f"arn:aws:s3:::{plain_text(bucket)}", f"{plain_text(directory)}*"
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    statements = [
        {"Effect": "Allow", "Action": objects, "Resource": [f"{whole}/{inside}"]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [whole],
            "Condition": {"StringLike": {"s3:prefix": [inside]}},
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@asynccontextmanager
async def opened(
    options: S3Options, keys: Credentials, host_environment: HostEnvironment
) -> AsyncIterator[ObjectStorage]:
    """The store, opened with other credentials."""
    bare = replace(options, access_key_id=None, secret_access_key=None, session_token=None)
    source = InlineSource(keys.access_key_id, keys.secret_access_key, keys.session_token)
    provider = RefreshingCredentials(source, host_environment.clock)
    storage = await connect_s3(bare, host_environment, credentials=provider, capabilities=CONDITIONS_TRUSTED)
    try:
        yield storage
    finally:
        await storage.close()


async def check_confinement(storage: ObjectStorage, inside: Key, *, outside: Key, beside: tuple[Key, ...]) -> int:
    """Check that credentials open `inside` and nothing else; the number of denied attempts. Raises StepFailed.

    `outside` is an existing object, `beside` are keys without an object.
    """
    try:
        await storage.put(inside, b"inside")
        await storage.get(inside)
    except AccessDenied as error:
        raise StepFailed(
            f"the scoped credentials cannot access their directory: {error}",
            "The role itself needs these permissions: a session policy only restricts them.",
        ) from error
    attempts: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        (f"read {outside}", lambda: storage.get(outside)),
        (f"delete {outside}", lambda: storage.delete(outside)),
        ("list all", lambda: _first(storage)),
        *((f"write {key}", _writing(storage, key)) for key in beside),
    ]
    done = [name for name, attempt in attempts if not await _is_refused(attempt)]
    if done:
        raise StepFailed(
            f"credentials limited to one directory could {', '.join(done)}",
            "Do not vend credentials of this store: it does not enforce session policies. Route engines through"
            " Lakebed, which does.",
        )
    return len(attempts)


async def _is_refused(attempt: Callable[[], Awaitable[object]]) -> bool:
    try:
        await attempt()
    except (AccessDenied, NotFound):
        return True
    except LakebedError as error:
        raise StepFailed(
            f"cannot test access outside the directory: {error}", "Try again; check the store's log."
        ) from error
    return False


async def _first(storage: ObjectStorage) -> object:
    async for found in storage.list_prefix():
        return found
    return None


def _writing(storage: ObjectStorage, key: Key) -> Callable[[], Awaitable[object]]:
    return lambda: storage.put(key, b"outside")


def _keys_in(response: StoreResponse) -> Credentials:
    found = response.texts()
    return Credentials(
        found.get("AccessKeyId", ""),
        Secret(found.get("SecretAccessKey", "")),
        Secret(found.get("SessionToken", "")),
        source="sts",
    )
