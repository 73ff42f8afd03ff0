"""An S3 store on a scripted server, for rare responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lakebed.core.secrets import Secret
from lakebed.storage.credentials import CredentialProvider, Credentials
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import S3Options, S3Storage, connect_s3
from tests.fixtures.scripted_http import Script, ScriptedResponse, ScriptedServer, scripted_server

SECRET = "the-secret-key-itself"
TOKEN = "the-session-token-itself"
OLD_KEYS = Credentials("OLDKEYID", Secret(SECRET), Secret(TOKEN), source="test")
NEW_KEYS = Credentials("NEWKEYID", Secret(SECRET), Secret(TOKEN), source="test")


def error(status: int, code: str, message: str = "no") -> ScriptedResponse:
    """An S3 error response."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>R1</RequestId></Error>"
    return ScriptedResponse(status, body.encode(), {"Content-Type": "application/xml"})


def written(etag: str = "tag") -> ScriptedResponse:
    """The response of a successful PUT."""
    return ScriptedResponse(200, headers={"ETag": f'"{etag}"'})


@dataclass
class Keyring:
    """Returns the old keys until they are rejected, then the new ones."""

    rejections: int = 0

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        if rejected == OLD_KEYS:
            self.rejections += 1
        return NEW_KEYS if self.rejections else OLD_KEYS

    async def close(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def scripted_s3(
    script: Script, credentials: CredentialProvider | None = None
) -> AsyncIterator[tuple[S3Storage, ScriptedServer]]:
    """A store whose responses come from a script."""
    with scripted_server(script) as server:
        storage = await connect_s3(
            S3Options("bucket", "pre", "us-east-1", server.url, allow_http=True, max_concurrency=4),
            credentials=credentials or Keyring(),
            capabilities=CONDITIONS_TRUSTED,
        )
        try:
            yield storage, server
        finally:
            await storage.close()
