"""The order in which credentials are looked for. The first source that applies wins, for good.

A source that applies but fails is an error, never a reason to go on: the next one would be an identity nobody chose.
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
    """Sources in order, as one source. Once one has answered, only that one is asked again."""

    def __init__(self, sources: Sequence[CredentialSource]) -> None:
        self._sources = tuple(sources)
        self._chosen: CredentialSource | None = None

    @property
    def name(self) -> str:
        """The chosen source's name."""
        return self._chosen.name if self._chosen else "chain"

    @property
    def survives_outage(self) -> bool:
        """As the chosen source says."""
        return self._chosen is not None and self._chosen.survives_outage

    async def load(self) -> Credentials:
        """Keys of the first source that applies. Raises Unauthenticated if none does, else as that source."""
        for source in (self._chosen,) if self._chosen else self._sources:
            loaded = await source.load()
            if loaded is not None:
                self._chosen = source
                return loaded
        asked = ", ".join(source.name for source in ((self._chosen,) if self._chosen else self._sources))
        raise Unauthenticated(f"no credentials: none of these has any. sources={asked}")


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
