"""The steps that sign requests: credentials, then the bucket."""

from __future__ import annotations

from typing import Final

from lakebed.storage.credentials import Credentials, CredentialSource

from .explanations import rejected_keys
from .model import StepFailed, StepFinding
from .store_client import StoreClient, StoreResponse
from .target import CheckedStore

_REGION_CODES: Final = frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect"})


class CredentialSteps:
    """Finds credentials, checks that the store accepts them, and checks the bucket."""

    def __init__(self, target: CheckedStore, client: StoreClient, source: CredentialSource) -> None:
        self._target = target
        self._client = client
        self._source = source
        self._keys: Credentials | None = None
        self._first: StoreResponse | None = None
        self._created_bucket = False

    @property
    def keys(self) -> Credentials:
        """The credentials, once `authenticate` found them."""
        if self._keys is None:
            raise RuntimeError("credentials requested before the step that finds them")
        return self._keys

    async def authenticate(self) -> StepFinding:
        """Find the credentials, and check that the store accepts a request signed with them."""
        found = await self._source.load()
        if found is None:
            raise StepFailed(
                "no credentials found",
                "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or storage.s3.access_key_id and its secret.",
            )
        self._keys = found
        if self._target.makes_bucket:
            response = await self._client.signed("GET", f"{self._target.endpoint}/", found)
        else:
            query = {"list-type": "2", "max-keys": "1", "prefix": self._target.options.key_prefix}
            response = await self._client.signed("GET", self._target.bucket_url, found, query=query)
        self._first = response
        refused = rejected_keys(response, found, self._target)
        if refused is not None:
            raise refused
        kind = "temporary" if found.session_token else "long-lived"
        return StepFinding(f"{found.access_key_id[:8]}…, {kind}, from {found.source or 'here'}")

    async def check_bucket(self) -> StepFinding:
        """Check that the bucket exists, or create it."""
        bucket = self._target.options.bucket
        if self._target.makes_bucket:
            made = await self._client.signed("PUT", self._target.bucket_url, self.keys)
            if made.status != 200:
                raise StepFailed(
                    f"cannot create a bucket for the check: {_described(made)}",
                    "Use an existing one: --bucket NAME.",
                )
            self._created_bucket = True
            return StepFinding(f"{bucket}, created for the check")
        response = self._first
        if response is None:
            raise RuntimeError("bucket checked before the credentials")
        if response.status == 200:
            return StepFinding(bucket)
        if response.code == "NoSuchBucket" or response.status == 404:
            raise StepFailed(f"no such bucket: {bucket}", "Create it, or correct storage.s3.bucket or --bucket.")
        if response.code in _REGION_CODES or 300 <= response.status < 400:
            region = response.texts().get("Region") or response.headers.get("x-amz-bucket-region", "")
            raise StepFailed(
                f"the bucket is in another region or at another endpoint: {_described(response)}",
                f"Set the region to {region}." if region else "Set the bucket's own region and endpoint.",
            )
        if response.status == 403:
            return StepFinding(
                f"{bucket}, existence unknown",
                why="the credentials may not list it; the next steps show whether it exists",
            )
        raise StepFailed(
            f"the bucket cannot be listed: {_described(response)}", "Check the store's log for this request."
        )

    async def remove_bucket(self) -> list[str]:
        """Remove the bucket that the check created; its name if it still exists."""
        if not self._created_bucket:
            return []
        response = await self._client.signed("DELETE", self._target.bucket_url, self.keys)
        return [] if response.status in (204, 404) else [f"bucket {self._target.options.bucket}"]


def _described(response: StoreResponse) -> str:
    words = " ".join(word for word in (response.code, response.message) if word)
    return f"{response.status} {words}".strip()
