"""A client that opens scans of a bucket and continues none of them. Run by tests, which kill it."""

from __future__ import annotations

import sys
import time

from lakebed.client.streams.client import StreamClient
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY


def main(address: str, database: str, table: str, count: str) -> None:
    """Open scans of the first bucket, print a line, and wait to be killed."""
    with StreamClient(address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client:
        scans = [client.scan_kv(database, table, buckets=[0], scanner_kv_fetch_max_bytes=50) for _ in range(int(count))]
        for scan in scans:
            assert scan.next_batch() is not None
        print("open", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
