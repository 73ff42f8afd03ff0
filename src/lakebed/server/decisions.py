"""Wires the authorizer: policies and grants, with an external decision point if the settings have one."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from lakebed.core.access import Authorizer
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import DecisionsSettings
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.decision_point import DecisionEndpoint, DecisionPoint, ExternalAuthorizer


@dataclass(frozen=True, slots=True)
class AuthorizerSetup:
    """The authorizer of a server, and its connections."""

    authorizer: Authorizer
    policies: PolicyAuthorizer
    """The part that implements the policy language."""
    endpoints: tuple[DecisionEndpoint, ...] = ()

    async def close(self) -> None:
        """Close the connections to the decision point."""
        for endpoint in self.endpoints:
            await endpoint.close()


def wire_authorizer(settings: DecisionsSettings, clock: Clock) -> AuthorizerSetup:
    """The authorizer of the settings. Connects with the first decision request. Raises InvalidSetting."""
    policies = PolicyAuthorizer(clock)
    if settings.url is None:
        return AuthorizerSetup(policies, policies)
    bundle = None if settings.ca_bundle is None else str(settings.ca_bundle)

    def connect(url: str) -> DecisionEndpoint:
        return DecisionEndpoint(url, timeout_seconds=settings.timeout, token=settings.token, ca_bundle=bundle)

    urls = [url for url in (settings.url, settings.batch_url) if url is not None]
    if any(urlsplit(url).scheme == "https" for url in urls):
        _check_authorities(bundle)
    single = connect(settings.url)
    batch = None if settings.batch_url is None else connect(settings.batch_url)
    point = DecisionPoint(
        single.post,
        clock,
        cache_seconds=settings.cache_ttl,
        post_batch=None if batch is None else batch.post,
    )
    endpoints = (single,) if batch is None else (single, batch)
    return AuthorizerSetup(ExternalAuthorizer(policies, point, settings.mode), policies, endpoints)


def _check_authorities(ca_bundle: str | None) -> None:
    try:
        ssl.create_default_context(cafile=ca_bundle)
    except OSError as error:
        raise InvalidSetting(
            f"decisions.ca_bundle: cannot be read: {error.strerror or type(error).__name__}. file={ca_bundle}",
            argument="decisions.ca_bundle",
        ) from error
