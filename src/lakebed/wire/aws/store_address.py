"""The S3 endpoint for catalog clients, and parsing of S3 URIs for remote signing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Request, parse_query

from .request_target import S3Target, decode_path, parse_target

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_AWS_HOST: Final = re.compile(r"s3([.-](dualstack\.)?[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")


class StoreRequest(NamedTuple):
    """A parsed S3 URI."""

    host: str
    """The Host header that the client will send."""
    raw_path: str
    raw_query: str
    target: S3Target
    query: dict[str, str]


class StoreListener(NamedTuple):
    """A listener for S3 that is separate from the catalog's."""

    host: str | None
    """The host that it listens on; None if it is reachable at the catalog's host names."""
    port: int

    def authority(self, catalog_host: str) -> str:
        """Host and port of S3 for a client that reached the catalog at `catalog_host`."""
        if self.host is not None:
            return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        # An IPv6 address is in brackets, before the port.
        name = catalog_host if catalog_host.endswith("]") else catalog_host.rpartition(":")[0] or catalog_host
        return f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The endpoint of S3 for clients."""

    region: str
    endpoint: str | None = None
    """Its URL; None for the host at which the client reached the catalog."""
    domains: tuple[str, ...] = ()
    """Domains of virtual-host-style requests: `BUCKET.DOMAIN` addresses a bucket."""
    listener: StoreListener | None = None
    """The listener of S3, if the catalog has another one."""

    def endpoint_for(self, request: Request) -> str:
        """The URL of S3 for the client that sent the request to the catalog."""
        if self.endpoint is not None:
            return self.endpoint.rstrip("/")
        host = request.headers.get("host", "")
        return f"{request.scheme}://{host if self.listener is None else self.listener.authority(host)}"

    def client_settings(self, request: Request) -> dict[str, str]:
        """A client's settings for the endpoint, without credentials."""
        return {
            "s3.endpoint": self.endpoint_for(request),
            # Path-style requests work with every host name of this server.
            "s3.path-style-access": "true",
            "client.region": self.region,
        }

    def parse(self, uri: str, request: Request) -> StoreRequest:
        """Parse the URI of a request to this server. Raises InvalidInput for any other."""
        parts = _split(uri)
        host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])
        if not self._is_this_server(host, request):
            raise InvalidInput(f"the URI does not belong to this server. host={host}", argument="uri")
        query = parse_query(parts.query) if parts.query else {}
        return StoreRequest(host, parts.path, parts.query, parse_target(parts.path, host, self.domains), query)

    def _is_this_server(self, host: str, request: Request) -> bool:
        endpoint = urlsplit(self.endpoint_for(request))
        known = {endpoint.netloc.lower()}
        if self.listener is None:
            known.add(request.headers.get("host", "").lower())
        for scheme_port in _DEFAULT_PORTS.values():
            known |= {name.removesuffix(scheme_port) for name in known}
        if host in known:
            return True
        name = host.rpartition(":")[0] if ":" in host else host
        return any(name == domain or name.endswith("." + domain) for domain in self.domains)


@dataclass(frozen=True, slots=True)
class ExternalAddress:
    """The endpoint of an external S3 store for clients, and one bucket of it."""

    bucket: str
    endpoint: str
    """Its URL; empty for AWS."""

    def parse(self, uri: str) -> StoreRequest:
        """Parse the URI of a request to the bucket, of path style or virtual-host style. Raises InvalidInput."""
        parts = _split(uri)
        host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])
        if self._is_store(host):
            target = parse_target(parts.path, host, ())
        elif self._is_store(host.removeprefix(f"{self.bucket.lower()}.")):
            target = S3Target(self.bucket, decode_path(parts.path[1:]))
        else:
            raise InvalidInput(f"the URI does not belong to the catalog's object store. host={host}", argument="uri")
        query = parse_query(parts.query) if parts.query else {}
        return StoreRequest(host, parts.path, parts.query, target, query)

    def _is_store(self, host: str) -> bool:
        if not self.endpoint:
            return _AWS_HOST.fullmatch(host) is not None
        parts = urlsplit(self.endpoint)
        return host == parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])


def _split(uri: str) -> SplitResult:
    # urlsplit drops some of these characters: the signed URI must be the one that was checked.
    if not uri.isascii() or any(character <= " " or character == "\x7f" for character in uri):
        raise InvalidInput("the URI contains characters that must be percent-encoded", argument="uri")
    try:
        parts = urlsplit(uri)
        user = parts.username
    except ValueError as error:
        raise InvalidInput("the URI cannot be parsed", argument="uri") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.netloc or user is not None or parts.fragment:
        raise InvalidInput("the URI must have the form http(s)://HOST/PATH?QUERY", argument="uri")
    return parts._replace(path=parts.path or "/")
