"""The demo's tables: PyIceberg with the catalog and vended credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.core.errors import Unavailable

BUCKET: Final = "warehouse"
_TABLE: Final = "sales.orders"


class TableDemo:
    """The steps of a table."""

    def __init__(self, endpoint: str, keys: Mapping[str, str], s3: Any) -> None:  # Any: boto3 has no types
        self._endpoint = endpoint
        self._keys = keys
        self._s3 = s3
        self.catalog: Any = None  # Any: PyIceberg is imported at run time only

    def open(self) -> None:
        """Create a table bucket, and connect PyIceberg to it."""
        self._s3.create_bucket(Bucket=BUCKET)
        self._signed("PUT", f"/iceberg/v1/buckets/{BUCKET}")
        _, load_catalog = _pyiceberg()
        self.catalog = load_catalog(
            "demo",
            **{
                "type": "rest",
                "uri": f"{self._endpoint}/iceberg",
                "warehouse": BUCKET,
                "rest.sigv4-enabled": "true",
                "rest.signing-name": "s3",
                "rest.signing-region": "us-east-1",
                "client.region": "us-east-1",
                "client.access-key-id": self._keys["aws_access_key_id"],
                "client.secret-access-key": self._keys["aws_secret_access_key"],
                "s3.access-key-id": "",
            },
        )

    def write(self) -> str:
        """Create a table and append rows; the client has only vended credentials."""
        arrow, _ = _pyiceberg()
        self.catalog.create_namespace("sales")
        parts = [
            arrow.table({"id": ids, "country": [("de", "fr", "it")[one % 3] for one in ids]})
            for ids in (range(1000), range(1000, 2000), range(2000, 3000))
        ]
        table = self.catalog.create_table(_TABLE, schema=parts[0].schema)
        for rows in parts:
            table.append(rows)
        vended = table.io.properties["s3.access-key-id"]
        return f"3 appends, {table.scan().to_arrow().num_rows:,} rows; written with the vended key {vended}"

    def evolve(self) -> str:
        """Add a column, delete rows, and read the first snapshot."""
        from pyiceberg.types import DoubleType

        table = self.catalog.load_table(_TABLE)
        first = table.history()[0].snapshot_id
        with table.update_schema() as update:
            update.add_column("price", DoubleType())
        table.delete("country = 'it'")
        now, then = table.scan().to_arrow().num_rows, table.scan(snapshot_id=first).to_arrow().num_rows
        columns = ", ".join(field.name for field in table.schema().fields)
        return f"columns {columns}; {now:,} rows now, {then:,} in the first snapshot"

    def plan(self) -> str:
        """Plan a scan on the server."""
        document = b'{"filter": {"type": "gt", "term": "id", "value": 2000}}'
        path = f"/iceberg/v1/{BUCKET}/namespaces/sales/tables/orders/plan"
        some = self._signed("POST", path, document)
        everything = self._signed("POST", path, b"{}")
        found = len(some["file-scan-tasks"]), len(everything["file-scan-tasks"])
        return f"id > 2000: {found[0]} of {found[1]} files are read"

    def _signed(self, method: str, path: str, body: bytes | None = None) -> Any:  # Any: a JSON document
        import requests
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        request = AWSRequest(method, self._endpoint + path, data=body)
        credentials = Credentials(self._keys["aws_access_key_id"], self._keys["aws_secret_access_key"])
        SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
        response = requests.request(method, request.url, data=body, headers=dict(request.headers), timeout=30)
        if response.status_code != 200:
            raise Unavailable(f"catalog request failed. status={response.status_code} response={response.text[:200]}")
        return response.json()


def _pyiceberg() -> tuple[Any, Any]:  # Any: neither is installed with Lakebed itself
    import pyarrow
    from pyiceberg.catalog import load_catalog

    return pyarrow, load_catalog
