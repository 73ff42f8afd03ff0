"""The credential chain. The first source that applies is used permanently.

A source that applies but fails raises an error: continuing with the next one would use an unintended identity.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import Unauthenticated
from ...core.secrets import Secret
from .container import ContainerSource
from .environment import EnvironmentSource
from .host_environment import HostEnvironment
from .imds import InstanceMetadataSource
from .inline import InlineSource
from .model import Credentials, CredentialSource
from .profile import ProfileSource
from .web_identity import WebIdentitySource


class CredentialChain:
    """Sources in order. After the first success, only that source is used."""

    def __init__(self, sources: Sequence[CredentialSource]) -> None:
        self._sources = tuple(sources)
        self._selected: CredentialSource | None = None

    @property
    def name(self) -> str:
        """The selected source's name."""
        return self._selected.name if self._selected else "chain"

    @property
    def survives_outage(self) -> bool:
        """The selected source's value."""
        return self._selected is not None and self._selected.survives_outage

    async def load(self) -> Credentials:
        """Credentials of the first source that applies. Raises Unauthenticated if none does, else as that source."""
        for source in (self._selected,) if self._selected else self._sources:
            loaded = await source.load()
            if loaded is not None:
                self._selected = source
                return loaded
        names = ", ".join(source.name for source in ((self._selected,) if self._selected else self._sources))
        raise Unauthenticated(f"no credentials found. sources={names}")


def default_chain(
    host_environment: HostEnvironment,
    *,
    access_key_id: str | None = None,
    secret_access_key: Secret | None = None,
    session_token: Secret | None = None,
    region: str | None = None,
    imdsv1_fallback: bool = False,
) -> CredentialChain:
    """Settings, environment, profile, web identity, container, instance metadata."""
    return CredentialChain(
        [
            InlineSource(access_key_id, secret_access_key, session_token),
            EnvironmentSource(host_environment),
            ProfileSource(host_environment, region, imdsv1_fallback),
            WebIdentitySource(host_environment, region),
            ContainerSource(host_environment),
            InstanceMetadataSource(host_environment, imdsv1_fallback),
        ]
    )
