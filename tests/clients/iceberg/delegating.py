"""A relay that asks for keys on behalf of a client that lost the words on the way."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.fixtures.server import RunningServer


@contextmanager
def relay_that_asks_for_keys(server: RunningServer) -> Iterator[str]:
    """The address of a relay to the server that adds `X-Iceberg-Access-Delegation: vended-credentials`.

    DuckDB 1.5.5 makes this header and drops it again where it signs its requests; later versions send it
    (duckdb/duckdb-iceberg#1393). The header is not signed, so that it can be added here.
    """

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.putheader("X-Iceberg-Access-Delegation", "vended-credentials")
            connection.endheaders(body or None)
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.read())
            connection.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        def log_message(self, format: str, *args: object) -> None:
            """Tests say themselves what went wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        relay.daemon_threads = True
        thread = Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{relay.server_port}"
        finally:
            relay.shutdown()
            thread.join()
