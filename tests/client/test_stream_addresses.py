from __future__ import annotations

import pytest

from lakebed.client.streams.client import StreamClient
from lakebed.core.errors import InvalidInput
from lakebed.fluss.errors import FlussError
from tests.fixtures.server import RunningServer


@pytest.mark.parametrize("address", ["wrong", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:70000", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="expected the stream address as HOST:PORT"):
        StreamClient(address)


@pytest.mark.integration
def test_the_http_port_is_told_from_the_port_of_streams(lakebed_server: RunningServer) -> None:
    client = StreamClient(f"127.0.0.1:{lakebed_server.port}", "me", "secret")
    with client, pytest.raises(FlussError, match=r"not a stream server: expected .* streams\.listen"):
        client.partitions("fluss", "any")
