"""Outgoing HTTP: one async and one sync client, connection pools, TLS files, proxies and host allow-lists."""
