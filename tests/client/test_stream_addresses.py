from __future__ import annotations

import pytest

from lakebed.client.streams.client import StreamClient
from lakebed.core.errors import InvalidInput
from lakebed.fluss.errors import FlussError
from tests.fixtures.server import RunningServer


@pytest.mark.parametrize("address", ["wrong", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:70000", ""])
def test_invalid_stream_address_is_rejected(address: str) -> None:
    with pytest.raises(InvalidInput, match="expected the stream address as HOST:PORT"):
        StreamClient(address)


@pytest.mark.integration
def test_http_port_as_stream_address_is_reported(lakebed_server: RunningServer) -> None:
    client = StreamClient(f"127.0.0.1:{lakebed_server.port}", "me", "secret")
    with client, pytest.raises(FlussError, match=r"not a stream server: expected .* streams\.listen"):
        client.partitions("fluss", "any")
