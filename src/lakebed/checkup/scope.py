"""Keys that are confined to a directory: handed out by the store's STS, and tried inside and outside of it.

The session policy is of the kind that catalogs write for a table, in words that every store knows. What matters is the
refusals: a store that takes such a policy and does not hold keys to it would open every table to whoever may read one.
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
"""Begins with the same letters, and is in another directory."""
OUTSIDE: Final = Key("outside")
_DIRECTORY: Final = "scope/"
_SECONDS: Final = 900
_API_VERSION: Final = "2011-06-15"
_FORM: Final = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}

_WITHOUT_STS: Final = (
    "no keys of this store can be confined to one table, so an engine that goes to it directly has to be given lasting"
    " ones. As a byte store of Lakebed it needs none: engines are then given Lakebed's keys, or signatures, and Lakebed"
    " holds them to their tables itself"
)


class ScopeSteps:
    """The steps with keys of STS."""

    def __init__(self, target: CheckedStore, client: StoreClient, host_environment: HostEnvironment) -> None:
        self._target = target
        self._client = client
        self._surroundings = host_environment
        self._confined: Credentials | None = None

    async def assume_role(self, keys: Credentials) -> StepFinding:
        """Ask for keys to one directory, as a catalog would."""
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
        where = f"{self._target.token_service}/"
        response = await self._client.signed(
            "POST", where, keys, headers=_FORM, body=urlencode(fields).encode(), service="sts"
        )
        if response.status == 200 and response.document == "AssumeRoleResponse":
            self._confined = _keys_in(response)
            return StepFinding(f"keys for {_SECONDS // 60} minutes, confined to one directory")
        return self._without(response)

    async def check_scope(self, tried: Callable[[Key], None]) -> StepFinding:
        """See that the keys open their directory, and nothing beside it. `tried` is told of every name."""
        if self._confined is None:
            raise RuntimeError("keys are tried before they were asked for")
        for key in (INSIDE, BESIDE, OUTSIDE):
            tried(key)
        async with opened(self._target.options, self._confined, self._surroundings) as confined:
            refusals = await check_confinement(confined, INSIDE, outside=SMALL, beside=(BESIDE, OUTSIDE))
        return StepFinding(f"1 directory open, {refusals} tries beside it refused")

    def _without(self, response: StoreResponse) -> StepFinding:
        is_sts = response.document == "ErrorResponse"
        words = f"{response.status} {response.code} {response.message}".strip()
        if self._target.role_arn is not None or self._target.sts_endpoint is not None:
            raise StepFailed(
                f"no keys for the role: {words}" if is_sts else f"nothing there answers as an STS: {words}",
                "See that the role exists and trusts these keys, and that --sts-endpoint is the right one.",
            )
        if is_sts:
            return StepFinding(
                "there, and hands these keys no others",
                StepOutcome.ABSENT,
                f"{words}. Until it does, {_WITHOUT_STS}",
                "If the store wants a role to be named, give --role-arn.",
            )
        return StepFinding("the store has none", StepOutcome.ABSENT, _WITHOUT_STS)


def scope_policy(bucket: str, directory: str) -> str:
    """A session policy that opens one directory."""
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
    """The store with other keys."""
    bare = replace(options, access_key_id=None, secret_access_key=None, session_token=None)
    source = InlineSource(keys.access_key_id, keys.secret_access_key, keys.session_token)
    provider = RefreshingCredentials(source, host_environment.clock)
    storage = await connect_s3(bare, host_environment, credentials=provider, capabilities=CONDITIONS_TRUSTED)
    try:
        yield storage
    finally:
        await storage.close()


async def check_confinement(storage: ObjectStorage, inside: Key, *, outside: Key, beside: tuple[Key, ...]) -> int:
    """See that keys open what is `inside` and nothing else; how many tries were refused. Raises StepFailed.

    `outside` is an object that is there, `beside` are names that nobody has.
    """
    try:
        await storage.put(inside, b"inside")
        await storage.get(inside)
    except AccessDenied as error:
        raise StepFailed(
            f"keys for a directory do not open it: {error}",
            "The role behind the keys has to be allowed what they are for: a session policy only takes away.",
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
            f"keys that were confined to one directory could {', '.join(done)}",
            "Hand out no keys of this store: it does not hold them to their policy. Have engines come by way of"
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
            f"whether keys are refused outside could not be seen: {error}", "Try again; see the store's own log."
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
