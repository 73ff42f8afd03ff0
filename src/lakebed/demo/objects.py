"""The demo's objects: listing, conditional writes, multipart uploads, encryption and scoped credentials, by boto3."""

from __future__ import annotations

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lakebed.core.errors import Unavailable

from .clients import boto3_client
from .server import DemoServer

_BIG_BYTES: Final = 64 * 1024 * 1024


class ObjectDemo:
    """The steps on a bucket."""

    def __init__(self, server: DemoServer) -> None:
        self._server = server

    def write(self) -> str:
        """Create a versioned bucket, write and list objects."""
        s3 = self._server.client()
        s3.create_bucket(Bucket="lake")
        s3.put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": "Enabled"})
        for number in range(200):
            s3.put_object(Bucket="lake", Key=f"raw/day={number % 4}/part-{number:04d}.json", Body=b"{}" * 100)
        page = s3.list_objects_v2(Bucket="lake", Prefix="raw/", Delimiter="/")
        folders = [prefix["Prefix"] for prefix in page["CommonPrefixes"]]
        return f"200 objects under {', '.join(folders)}"

    def fence(self) -> str:
        """Create one key from eight writers at once."""
        s3 = self._server.client()

        def attempt(number: int) -> str:
            try:
                s3.put_object(Bucket="lake", Key="leases/writer", Body=b"%d" % number, IfNoneMatch="*")
            except s3.exceptions.ClientError as error:
                return str(error.response["Error"]["Code"])
            return "created"

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(attempt, range(8)))
        body = s3.get_object(Bucket="lake", Key="leases/writer")["Body"].read()
        return (
            f"{outcomes.count('created')} succeeded, {outcomes.count('PreconditionFailed')} got 412;"
            f" the lease holds writer {body.decode()}"
        )

    def upload_in_parts(self) -> str:
        """Upload a large object in parts and read it back. Raises Unavailable if its bytes differ."""
        s3 = self._server.client()
        body = os.urandom(1024 * 1024) * (_BIG_BYTES // (1024 * 1024))
        source = self._server.folder / "big.bin"
        source.write_bytes(body)
        started = time.monotonic()
        s3.upload_file(str(source), "lake", "big.bin")
        up = time.monotonic() - started
        started = time.monotonic()
        s3.download_file("lake", "big.bin", str(source))
        down = time.monotonic() - started
        same = hashlib.sha256(source.read_bytes()).digest() == hashlib.sha256(body).digest()
        source.unlink()
        if not same:
            raise Unavailable("the downloaded bytes differ")
        mib = _BIG_BYTES / 1024 / 1024
        return f"up {mib / up:,.0f} MiB/s, down {mib / down:,.0f} MiB/s (boto3), SHA-256 equal"

    def put_last(self) -> str:
        """Write the object that has to survive a crash; its ETag."""
        etag: str = self._server.client().put_object(Bucket="lake", Key="after-this", Body=b"the lights go out")["ETag"]
        return etag

    def count(self, last: str) -> str:
        """The number of objects, and whether the one with the ETag `last` exists."""
        s3 = self._server.client()
        found = s3.head_object(Bucket="lake", Key="after-this")["ETag"]
        count = sum(
            len(page.get("Contents", [])) for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake")
        )
        return f"{count} objects are present, the last acknowledged one included: {'yes' if found == last else 'NO'}"

    def encrypt(self) -> str:
        """Write an encrypted object, and search the disk for its text."""
        s3 = self._server.client()
        secret = b"not for the disk to know " * 8000
        s3.put_object(Bucket="lake", Key="sealed", Body=secret, ServerSideEncryption="AES256")
        back = s3.get_object(Bucket="lake", Key="sealed")["Body"].read() == secret
        stored = [path for path in (self._server.data).rglob("*") if path.is_file()]
        leaked = sum(secret[:64] in path.read_bytes() for path in stored)
        return f"read back: {'yes' if back else 'NO'}; {leaked} of {len(stored)} files on disk hold its text"

    def vend(self) -> str:
        """Issue credentials for one prefix. Raises Unavailable if they open another."""
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/raw/day=1/*"},
            ],
        }
        sts = self._server.client("sts")
        issued = sts.assume_role(
            RoleArn="arn:aws:iam::000000000000:role/reader", RoleSessionName="demo", Policy=json.dumps(policy)
        )["Credentials"]
        limited = boto3_client(
            "s3",
            self._server.endpoint,
            {
                "aws_access_key_id": issued["AccessKeyId"],
                "aws_secret_access_key": issued["SecretAccessKey"],
                "aws_session_token": issued["SessionToken"],
            },
        )
        limited.get_object(Bucket="lake", Key="raw/day=1/part-0001.json")
        try:
            limited.get_object(Bucket="lake", Key="raw/day=2/part-0002.json")
        except limited.exceptions.ClientError as error:
            return f"inside the prefix: read; outside: {error.response['Error']['Code']}"
        raise Unavailable("keys for one prefix opened another")
