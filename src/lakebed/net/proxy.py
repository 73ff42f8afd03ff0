"""HTTPS proxies, as the environment names them (`https_proxy`, `no_proxy`)."""

from __future__ import annotations

import base64
import urllib.request
from urllib.parse import SplitResult, unquote, urlsplit


def proxy_for(host: str) -> SplitResult | None:
    """The proxy for HTTPS requests to `host`. It gets CONNECT over plain HTTP."""
    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return urlsplit(proxy if "//" in proxy else f"//{proxy}")


def proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    """The header that authenticates at a proxy whose address has a user."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
