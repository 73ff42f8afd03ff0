"""Authenticates OAuth clients by id and secret.

A client has client credentials or a long-lived access key, root's included: `credential=ID:SECRET` works with keys for
S3.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from lakebed.core.errors import CredentialsExpired, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.meta.seam import MetaStore

from ..credentials.access_keys import AccessKeys
from ..credentials.vault import MasterKeys
from ..model import is_key_id
from .login_throttle import LoginThrottle
from .model import AuthenticatedClient
from .secret_hashes import SecretHasher

_CLIENT: Final = (
    "SELECT c.main, c.secondary, c.generation, p.user_id, p.enabled FROM client_credentials c"
    " JOIN principals p ON p.user_id = c.user_id WHERE c.client_id = ?"
)
_PURPOSE: Final = "generations of access keys"
_FINGERPRINT_BYTES: Final = 12


class ClientAuthenticator:
    """Verifies client ids and secrets."""

    def __init__(
        self,
        store: MetaStore,
        access_keys: AccessKeys,
        hashes: SecretHasher,
        attempts: LoginThrottle,
        master: MasterKeys,
    ) -> None:
        self._store = store
        self._access_keys = access_keys
        self._hashes = hashes
        self._attempts = attempts
        self._master = master

    async def authenticate(self, client_id: str, secret: Secret, address: str) -> AuthenticatedClient:
        """The client. Raises Unauthenticated without details, Throttled after too many failures; CredentialsExpired for
        the right secret of an expired access key.

        Every attempt counts as failed until it is verified, so that concurrent guesses are throttled too.
        """
        if not is_key_id(client_id):
            # Not a valid id, so not worth tracking separately.
            client_id = "-"
        attempt = self._attempts.begin(client_id, address)
        client = await self._find(client_id, secret)
        if client is None:
            raise Unauthenticated("wrong client id or secret")
        self._attempts.succeeded(attempt)
        return client

    async def _find(self, client_id: str, secret: Secret) -> AuthenticatedClient | None:
        row = await self._store.row(_CLIENT, client_id)
        if row is None:
            return await self._by_access_key(client_id, secret)
        main, secondary, generation, user_id, enabled = row
        number = await self._hashes.find(client_id, secret, [main] if secondary is None else [main, secondary])
        if number is None or not enabled:
            return None
        return AuthenticatedClient(client_id, user_id, str(generation - number))

    async def _by_access_key(self, client_id: str, secret: Secret) -> AuthenticatedClient | None:
        try:
            credential = await self._access_keys.lookup(client_id)
        except Unauthenticated as error:
            if isinstance(error, CredentialsExpired) and await self._access_keys.has_secret(client_id, secret):
                raise  # only with the right secret: the error confirms that the key exists
            # Take as long as a wrong secret, so that timing does not reveal which ids exist.
            await self._hashes.find(client_id, secret, [])
            return None
        if credential.secret != secret:
            await self._hashes.find(client_id, secret, [])
            return None
        return AuthenticatedClient(
            client_id, credential.principal.user_id, key_generation(self._master, client_id, secret)
        )


def key_generation(master: MasterKeys, access_key_id: str, secret: Secret, master_key: str | None = None) -> str:
    """Identifies the current secret of an access key without revealing it.

    Names the master key that it is derived from, so that it can be recomputed after a change of the active key.
    """
    master_key = master_key or master.active
    key = master.derive(_PURPOSE, master_key)
    digest = hmac.new(key, f"{access_key_id}\0{secret.reveal()}".encode(), hashlib.sha256).digest()
    return f"{master_key}.{base64.urlsafe_b64encode(digest[:_FINGERPRINT_BYTES]).decode()}"


def is_generation(master: MasterKeys, generation: str, access_key_id: str, secret: Secret) -> bool:
    """Whether the generation is of this secret."""
    master_key, _, _ = generation.rpartition(".")
    if master_key not in master:
        return False
    return hmac.compare_digest(key_generation(master, access_key_id, secret, master_key), generation)
