"""Vends shared access signatures with the server's credentials."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...core.clock import Clock
from ...core.errors import NotSupported
from ...core.extras import require_extra
from ..cloud.scoped import ScopedToken
from .options import AzureOptions
from .sas import SasScope, sas_validity, signed_sas

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential


async def vend_sas(
    options: AzureOptions,
    scope: SasScope,
    lifetime_seconds: float,
    clock: Clock,
    *,
    credential: TokenCredential | None = None,
) -> ScopedToken:
    """A SAS for `scope`, at most 7 days; a shorter expiry than requested is returned with it.

    Signed with the account key if there is one, without a request; otherwise with a user delegation key of the server's
    Entra identity, one request. `credential` replaces that identity. Raises NotSupported if the server itself has only
    a SAS, and the errors of a request.
    """
    require_extra("azure", "credential vending for Azure")
    validity = sas_validity(clock.now_ms(), lifetime_seconds)
    if options.account_key is not None:
        return signed_sas(scope, options.account, options.account_key, validity, https_only=options.uses_tls)
    if options.sas_token is not None:
        raise NotSupported("a SAS cannot sign another: configure an account key or an identity to vend credentials")
    # Imported on demand: the library is an extra, and slow to load.
    from .sdk import AzureBlobClient

    def sign() -> ScopedToken:
        client = AzureBlobClient(options, credential)
        try:
            key = client.delegation_key(validity.start, validity.expiry)
        finally:
            client.close()
        return signed_sas(scope, options.account, key, validity, https_only=options.uses_tls)

    return await asyncio.to_thread(sign)
