"""A relay that requests access delegation for a client that drops the header."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.fixtures.server import RunningServer


@contextmanager
def relay_requesting_vended_credentials(server: RunningServer) -> Iterator[str]:
    """Address of a relay to the server that adds `X-Iceberg-Access-Delegation: vended-credentials`.

    DuckDB 1.5.5 drops this header when it signs requests; later versions send it (duckdb/duckdb-iceberg#1393). The
    header is not signed, so a relay can add it.
    """

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
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

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: tests report their failures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        relay.daemon_threads = True
        thread = Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{relay.server_port}"
        finally:
            relay.shutdown()
            thread.join()
