"""Whose keys they are, and whether the store takes them; then the bucket."""

from __future__ import annotations

from typing import Final

from lakebed.storage.credentials import Credentials, CredentialSource

from .explanations import rejected_keys
from .model import StepFailed, StepFinding
from .store_client import StoreClient, StoreResponse
from .target import CheckedStore

_REGION_CODES: Final = frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect"})


class CredentialSteps:
    """The steps with keys."""

    def __init__(self, target: CheckedStore, client: StoreClient, source: CredentialSource) -> None:
        self._target = target
        self._client = client
        self._source = source
        self._keys: Credentials | None = None
        self._first: StoreResponse | None = None
        self._made_bucket = False

    @property
    def keys(self) -> Credentials:
        """The keys, once they were found."""
        if self._keys is None:
            raise RuntimeError("keys are asked for before they were looked for")
        return self._keys

    async def authenticate(self) -> StepFinding:
        """Find the keys, and see that the store takes what is signed with them."""
        found = await self._source.load()
        if found is None:
            raise StepFailed(
                "there are no keys to sign with",
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
        kind = "temporary" if found.session_token else "lasting"
        return StepFinding(f"{found.access_key_id[:8]}…, {kind}, from {found.source or 'here'}")

    async def check_bucket(self) -> StepFinding:
        """See that the bucket is there, or make it."""
        bucket = self._target.options.bucket
        if self._target.makes_bucket:
            made = await self._client.signed("PUT", self._target.bucket_url, self.keys)
            if made.status != 200:
                raise StepFailed(
                    f"no bucket could be made for the check: {_said(made)}",
                    "Name one that is there: --bucket NAME.",
                )
            self._made_bucket = True
            return StepFinding(f"{bucket}, made for the check")
        response = self._first
        if response is None:
            raise RuntimeError("the bucket is looked at before the keys were")
        if response.status == 200:
            return StepFinding(bucket)
        if response.code == "NoSuchBucket" or response.status == 404:
            raise StepFailed(
                f"there is no bucket {bucket}", "Make it, or correct storage.s3.bucket or --bucket: names are exact."
            )
        if response.code in _REGION_CODES or 300 <= response.status < 400:
            region = response.texts().get("Region") or response.headers.get("x-amz-bucket-region", "")
            raise StepFailed(
                f"the bucket is not where it is asked for: {_said(response)}",
                f"Set the region to {region}." if region else "Set the bucket's own region and endpoint.",
            )
        if response.status == 403:
            return StepFinding(
                f"{bucket}, as far as one can see",
                why="these keys may not list it; whether it is there the next steps show",
            )
        raise StepFailed(
            f"the bucket cannot be looked at: {_said(response)}", "See what the store's own log says of this request."
        )

    async def remove_bucket(self) -> list[str]:
        """Remove a bucket that was made; its name if it is still there."""
        if not self._made_bucket:
            return []
        response = await self._client.signed("DELETE", self._target.bucket_url, self.keys)
        return [] if response.status in (204, 404) else [f"bucket {self._target.options.bucket}"]


def _said(response: StoreResponse) -> str:
    words = " ".join(word for word in (response.code, response.message) if word)
    return f"{response.status} {words}".strip()
