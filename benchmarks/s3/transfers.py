"""Scenarios of several requests: multipart uploads and downloads, and batch deletes."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from benchmarks.endpoint import Request
from benchmarks.loadtool import Report
from benchmarks.s3.site import Site
from benchmarks.samples import Sample
from benchmarks.signing import Signing

PART_BYTES: Final = 16 * 1024 * 1024
BATCH: Final = 1_000
DELETED_BYTES: Final = 4 * 1024


def upload(site: Site, path: str, parts: int, signing: Signing) -> Report:
    """Create, upload the parts over 8 connections, and complete; reported as one operation."""
    begin = time.monotonic()
    upload_id = site.endpoint.call(Request("POST", path, {"uploads": ""})).element("UploadId")
    body = site.bodies.noise(PART_BYTES)
    requests = [
        Request("PUT", path, {"partNumber": str(number), "uploadId": upload_id}, body=body)
        for number in range(1, parts + 1)
    ]
    report = site.tool.run(site.endpoint, requests, signing, etags=True)
    if not report.errors:
        site.endpoint.call(Request("POST", path, {"uploadId": upload_id}, body=site.bodies.of(_manifest(report.etags))))
    return msgspec.structs.replace(_as_one(report), elapsed_seconds=time.monotonic() - begin)


def _manifest(etags: Sequence[str]) -> bytes:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in enumerate(etags, 1)
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


def _as_one(report: Report) -> Report:
    return msgspec.structs.replace(report, operations=0 if report.errors else 1)


def _ranges(path: str, parts: int) -> list[Request]:
    spans = ((first, first + PART_BYTES - 1) for first in range(0, parts * PART_BYTES, PART_BYTES))
    return [
        Request("GET", path, headers={"range": f"bytes={first}-{last}"}, status=206, length=(PART_BYTES, PART_BYTES))
        for first, last in spans
    ]


@dataclass(frozen=True, slots=True)
class MultipartUpload:
    """One object of so many 16 MiB parts, 8 at a time; overwritten in every round."""

    parts: int
    name: str = "multipart-up"

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        """Nothing: the bucket starts empty."""

    def check(self, site: Site, signing: Signing) -> None:
        """GET returns a two-part object."""
        path = f"/{self.bucket}/checked"
        upload(site, path, 2, signing)
        response = site.endpoint.call(Request("GET", path))
        if response.body != site.bodies.noise(PART_BYTES).path.read_bytes() * 2:
            raise RuntimeError(f"wrong bytes returned. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        return site.measure(lambda: upload(site, f"/{self.bucket}/object", self.parts, signing))


@dataclass(frozen=True, slots=True)
class MultipartDownload:
    """One multipart object in ranges of 16 MiB, 8 at a time."""

    parts: int
    name: str = "multipart-down"

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        report = upload(site, f"/{self.bucket}/object", self.parts, Signing.HEADER)
        if report.errors:
            raise RuntimeError(f"set-up failed. errors={report.errors}")

    def check(self, site: Site, signing: Signing) -> None:
        """The last range has the bytes of its part."""
        response = site.endpoint.call(_ranges(f"/{self.bucket}/object", self.parts)[-1], signing)
        if hashlib.sha256(response.body).hexdigest() != site.bodies.noise(PART_BYTES).sha256:
            raise RuntimeError(f"wrong bytes returned. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        requests = _ranges(f"/{self.bucket}/object", self.parts)
        return site.measure(lambda: _as_one(site.tool.run(site.endpoint, requests, signing)))


@dataclass(frozen=True, slots=True)
class DeleteBatches:
    """DeleteObjects of 1,000 existing 4 KiB objects each, all batches concurrently."""

    batches: int
    name: str = "delete-1000"

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        """Nothing: each round creates the objects that it deletes."""

    def check(self, site: Site, signing: Signing) -> None:
        """Deleted objects are not listed."""
        self._seed(site, 1)
        site.endpoint.call(self._batch(site, 0), signing)
        left = site.endpoint.call(Request("GET", f"/{self.bucket}", {"list-type": "2"})).count("Contents")
        if left:
            raise RuntimeError(f"deleted objects are listed. server={site.server.recipe.name} left={left}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Create the objects, then delete all of them; only the deletes are measured."""
        self._seed(site, self.batches)
        requests = [self._batch(site, batch) for batch in range(self.batches)]
        return site.measure(lambda: site.tool.run(site.endpoint, requests, signing))

    def _seed(self, site: Site, batches: int) -> None:
        body = site.bodies.noise(DELETED_BYTES)
        keys = (key for batch in range(batches) for key in self._keys(batch))
        site.tool.deliver(site.endpoint, [Request("PUT", f"/{self.bucket}/{key}", body=body) for key in keys])

    def _keys(self, batch: int) -> list[str]:
        return [f"batch-{batch}/{index:06d}" for index in range(BATCH)]

    def _batch(self, site: Site, batch: int) -> Request:
        listed = "".join(f"<Object><Key>{key}</Key></Object>" for key in self._keys(batch))
        text = f"<Delete>{listed}</Delete>".encode()
        md5 = base64.b64encode(hashlib.md5(text, usedforsecurity=False).digest()).decode()
        return Request("POST", f"/{self.bucket}", {"delete": ""}, {"content-md5": md5}, site.bodies.of(text))
