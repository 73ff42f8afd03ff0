"""All steps of a check in order, each in its time; and whatever they made taken away again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.core.ids import new_blob_id
from lakebed.core.sigv4 import encode_segment
from lakebed.storage.credentials import Credentials, CredentialSource, HostEnvironment, RefreshingCredentials
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import connect_s3

from .credentials import CredentialSteps
from .explanations import explain
from .model import CheckReport, StepFailed, StepFinding, StepName, StepOutcome, StepResult, missing_prerequisite
from .network import NetworkSteps
from .objects import ObjectSteps
from .scope import ScopeSteps
from .store_client import StoreClient
from .target import CheckedStore
from .vending import VendingSteps

STEP_SECONDS: Final = 60.0
"""How long a step may take: the slowest sends a few MiB."""

Step = Callable[[], Awaitable[StepFinding]]
OnStep = Callable[[StepName], None]
"""Told of a step before it is tried."""


async def check_store(
    target: CheckedStore,
    source: CredentialSource,
    host_environment: HostEnvironment,
    on_step: OnStep,
    *,
    step_seconds: float = STEP_SECONDS,
) -> CheckReport:
    """Try everything; the report. Does not raise for what is wrong with the store, nor leave anything in it."""
    scratch = "/".join(
        filter(None, (target.options.prefix.strip("/"), "lakebed-check", new_blob_id(host_environment.clock)))
    )
    check = _Check(target, scratch, source, host_environment, on_step, step_seconds)
    try:
        await check.run()
    finally:
        left = await asyncio.shield(check.clean_up())
    return CheckReport(target.endpoint, target.options.bucket, tuple(check.results), tuple(left))


class _Check:
    def __init__(
        self,
        asked: CheckedStore,
        scratch: str,
        source: CredentialSource,
        host_environment: HostEnvironment,
        on_step: OnStep,
        step_seconds: float,
    ) -> None:
        self.results: list[StepResult] = []
        self._asked = asked
        target = replace(asked, options=replace(asked.options, prefix=scratch))
        self._target = target
        self._source = source
        self._surroundings = host_environment
        self._clock = host_environment.clock
        self._on_step = on_step
        self._step_seconds = step_seconds
        self._client = StoreClient(host_environment.clock, target.region, target.ca_bundle)
        self._way = NetworkSteps(target, self._client, host_environment.clock)
        self._keys = CredentialSteps(target, self._client, source)
        self._scope = ScopeSteps(target, self._client, host_environment)
        self._vending = VendingSteps(target, self._client, host_environment)
        self._objects: ObjectSteps | None = None
        self._open = AsyncExitStack()

    async def run(self) -> None:
        for name, step in self._steps().items():
            self._on_step(name)
            result = await self._try(name, step)
            self.results.append(result)
            if name is StepName.BUCKET and result.outcome is StepOutcome.PASSED:
                await self._open_store()

    async def clean_up(self) -> list[str]:
        """Take away what is left; what could not be."""
        left: list[str] = []
        prefix, bucket = self._target.options.key_prefix, self._target.options.bucket
        async with self._open:
            trial = self._objects
            if trial is not None:
                left += [f"{bucket}/{prefix}{key}" for key in await trial.clean_up()]
                if trial.keeps_versions:
                    left += await remove_versions(self._client, self._target, self._keys.keys)
            left += await self._without_failing(self._keys.remove_bucket)
        return left

    async def _without_failing(self, leave: Callable[[], Awaitable[list[str]]]) -> list[str]:
        try:
            return await leave()
        except LakebedError:
            return [f"bucket {self._target.options.bucket}"]

    def _steps(self) -> Mapping[StepName, Step]:
        return {
            StepName.DNS: self._way.look_up,
            StepName.TCP: self._way.connect,
            StepName.TLS: self._way.secure,
            StepName.CLOCK: self._way.compare_clocks,
            StepName.CREDENTIALS: self._keys.authenticate,
            StepName.BUCKET: self._keys.check_bucket,
            StepName.STS: lambda: self._scope.assume_role(self._keys.keys),
            StepName.PUT: lambda: self._trial.put(),
            StepName.CONDITIONAL_PUT: lambda: self._trial.put_conditionally(),
            StepName.MULTIPART: lambda: self._trial.upload_in_parts(),
            StepName.LIST: lambda: self._trial.list_written(),
            StepName.RANGE_GET: lambda: self._trial.get_range(),
            StepName.SCOPE: lambda: self._scope.check_scope(self._trial.track),
            StepName.VENDED: lambda: self._vending.vend(self._keys.keys),
            StepName.DELETE: lambda: self._trial.delete(),
        }

    @property
    def _trial(self) -> ObjectSteps:
        if self._objects is None:
            raise RuntimeError("objects are tried before the bucket was")
        return self._objects

    async def _open_store(self) -> None:
        """Between the steps: the library behind it takes longer to load than most steps take."""
        provider = RefreshingCredentials(self._source, self._clock)
        storage = await connect_s3(
            self._target.options, self._surroundings, credentials=provider, capabilities=CONDITIONS_TRUSTED
        )
        self._open.push_async_callback(storage.close)
        self._objects = ObjectSteps(storage, conditional_writes=self._target.conditional_writes)

    async def _try(self, name: StepName, step: Step) -> StepResult:
        missing = missing_prerequisite(name, {result.step: result.outcome for result in self.results})
        if missing is not None:
            return StepResult(name, StepOutcome.SKIPPED, 0.0, f"cannot be tried without {missing}")
        started = self._clock.monotonic()

        def ended(finding: StepFinding) -> StepResult:
            seconds = self._clock.monotonic() - started
            return StepResult(name, finding.outcome, seconds, finding.found, finding.why, finding.advice)

        try:
            async with asyncio.timeout(self._step_seconds):
                return ended(await step())
        except StepFailed as failure:
            failed = failure
        except LakebedError as error:
            # By the prefix that somebody knows of, and not the check's own below it.
            failed = explain(name, error, self._asked)
        except TimeoutError:
            failed = StepFailed(
                f"no end within {self._step_seconds:g} s", "The store or the way to it is very slow: see its own log."
            )
        return ended(StepFinding("", StepOutcome.FAILED, failed.why, failed.advice))


_MAX_PAGES: Final = 10
"""A check makes a dozen versions."""


async def remove_versions(client: StoreClient, target: CheckedStore, keys: Credentials) -> list[str]:
    """Remove every version and delete marker under the check's own prefix; what could not be removed."""
    prefix, bucket = target.options.key_prefix, target.options.bucket
    left: list[str] = []
    try:
        for _ in range(_MAX_PAGES):
            query = {"versions": "", "prefix": prefix}
            response = await client.signed("GET", target.bucket_url, keys, query=query)
            if response.status != 200:
                return [f"older versions under {bucket}/{prefix}"]
            found = response.children("Version", "DeleteMarker")
            if not found:
                break
            left = []
            for one in found:
                url = "/".join((target.bucket_url.rstrip("/"), *map(encode_segment, one["Key"].split("/"))))
                gone = await client.signed("DELETE", url, keys, query={"versionId": one["VersionId"]})
                if gone.status != 204:
                    left.append(f"{bucket}/{one['Key']} version {one['VersionId']}")
            if left:
                break
    except LakebedError:
        return [f"older versions under {bucket}/{prefix}"]
    return left
