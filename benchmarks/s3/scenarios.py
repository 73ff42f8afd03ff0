"""The measured request paths. Each prepares a bucket, checks a response, and runs rounds."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks.endpoint import Request
from benchmarks.s3.site import Site
from benchmarks.s3.transfers import DeleteBatches, MultipartDownload, MultipartUpload
from benchmarks.samples import Sample
from benchmarks.signing import Signing

KIB: Final = 1024
MIB: Final = 1024 * KIB
LISTED_BYTES: Final = KIB
LISTED_KEYS: Final = 4_000
PAGE: Final = 1_000


class Unit(enum.Enum):
    """The unit of a path's speed."""

    OPERATIONS = "op/s"
    MEGABYTES = "MB/s"


class Scenario(Protocol):
    @property
    def name(self) -> str:
        """The value of `--only`."""
        ...

    @property
    def bucket(self) -> str:
        """The scenario's own bucket."""
        ...

    def prepare(self, site: Site) -> None:
        """Fill the new bucket."""
        ...

    def check(self, site: Site, signing: Signing) -> None:
        """Raise RuntimeError if the server's response is wrong in any byte."""
        ...

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Load the server for about `seconds`. `number` is unique among the rounds."""
        ...


@dataclass(frozen=True, slots=True)
class Reads:
    """GET or HEAD of objects of one size."""

    name: str
    method: str
    size: int
    keys: int

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        body = site.bodies.noise(self.size)
        site.tool.deliver(site.endpoint, [Request("PUT", request.path, body=body) for request in self._requests()])

    def check(self, site: Site, signing: Signing) -> None:
        """GET returns the bytes that were put."""
        response = site.endpoint.call(self._requests()[0], signing)
        if self.method == "GET" and hashlib.sha256(response.body).hexdigest() != site.bodies.noise(self.size).sha256:
            raise RuntimeError(f"wrong bytes returned. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        return site.measure(lambda: site.tool.run(site.endpoint, self._requests(), signing, seconds=seconds))

    def _requests(self) -> list[Request]:
        paths = (f"/{self.bucket}/{index:06d}" for index in range(self.keys))
        return [Request(self.method, path, length=(self.size, self.size)) for path in paths]


@dataclass(frozen=True, slots=True)
class Writes:
    """PUT of objects of one size. A round writes new keys, and overwrites them once all are used."""

    name: str
    size: int
    keys: int
    fresh: bool
    """False: every round writes the same keys, so that large bodies do not fill the disk."""

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        """Nothing: the bucket starts empty."""

    def check(self, site: Site, signing: Signing) -> None:
        """GET returns the bytes that were put."""
        body = site.bodies.noise(self.size)
        path = f"/{self.bucket}/checked"
        site.endpoint.call(Request("PUT", path, body=body), signing)
        response = site.endpoint.call(Request("GET", path, length=(self.size, self.size)))
        if hashlib.sha256(response.body).hexdigest() != body.sha256:
            raise RuntimeError(f"wrong bytes returned. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        body = site.bodies.noise(self.size)
        prefix = f"{signing.value}-{number if self.fresh else 0}"
        requests = [Request("PUT", f"/{self.bucket}/{prefix}/{index:06d}", body=body) for index in range(self.keys)]
        return site.measure(lambda: site.tool.run(site.endpoint, requests, signing, seconds=seconds))


@dataclass(frozen=True, slots=True)
class Lists:
    """ListObjectsV2: pages of 1,000 entries from several positions in the bucket."""

    name: str
    delimited: bool
    """True: common prefixes of 1,000 folders with 4 keys each. False: 4,000 keys."""

    @property
    def bucket(self) -> str:
        return self.name

    def prepare(self, site: Site) -> None:
        body = site.bodies.noise(LISTED_BYTES)
        requests = [Request("PUT", f"/{self.bucket}/{self.key(index)}", body=body) for index in range(LISTED_KEYS)]
        site.tool.deliver(site.endpoint, requests)

    def key(self, index: int) -> str:
        """The key at a position in the order."""
        return f"folder-{index // 4:06d}/{index % 4:06d}" if self.delimited else f"object-{index:08d}"

    def check(self, site: Site, signing: Signing) -> None:
        """Every page is full."""
        for request in self._requests():
            found = site.endpoint.call(request, signing).count("CommonPrefixes" if self.delimited else "Contents")
            if found != PAGE:
                raise RuntimeError(f"page is not full. server={site.server.recipe.name} entries={found}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        return site.measure(lambda: site.tool.run(site.endpoint, self._requests(), signing, seconds=seconds))

    def _requests(self) -> list[Request]:
        query = {"list-type": "2", "max-keys": str(PAGE)}
        if self.delimited:
            return [listing(self.bucket, {**query, "delimiter": "/"})]
        starts = [{"start-after": self.key(index - 1)} for index in range(PAGE, LISTED_KEYS, PAGE)]
        return [listing(self.bucket, {**query, **start}) for start in [{}, *starts]]


def listing(bucket: str, query: dict[str, str]) -> Request:
    """A listing whose response is at least as long as a page of 1,000 short entries."""
    return Request("GET", f"/{bucket}", query, length=(PAGE * 40, 1 << 30))


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the results: a scenario, its unit, and its goal relative to the peer."""

    title: str
    unit: Unit
    goal: float
    make: Callable[[bool], Scenario]
    """Takes True for a quick run."""
    stretch: float = 1
    """Factor on the seconds of a round, for long operations."""


ENTRIES: Final = (
    Entry("GET 4 KiB", Unit.OPERATIONS, 3, lambda quick: Reads("get-4k", "GET", 4 * KIB, 1_000)),
    Entry("HEAD", Unit.OPERATIONS, 3.5, lambda quick: Reads("head", "HEAD", 4 * KIB, 1_000)),
    Entry("PUT 4 KiB, durable", Unit.OPERATIONS, 2.5, lambda quick: Writes("put-4k", 4 * KIB, 20_000, fresh=True)),
    Entry("GET 1 MiB", Unit.MEGABYTES, 2, lambda quick: Reads("get-1m", "GET", MIB, 64)),
    Entry("PUT 1 MiB, durable", Unit.MEGABYTES, 1.5, lambda quick: Writes("put-1m", MIB, 128, fresh=False)),
    Entry("GET 64 MiB", Unit.MEGABYTES, 2, lambda quick: Reads("get-64m", "GET", 64 * MIB, 8), 1.5),
    Entry("PUT 64 MiB, durable", Unit.MEGABYTES, 1.2, lambda quick: Writes("put-64m", 64 * MIB, 16, fresh=False), 2),
    Entry("LIST 1,000 of 4,000 keys", Unit.OPERATIONS, 4, lambda quick: Lists("list", delimited=False)),
    Entry("LIST 1,000 prefixes of 4,000 keys", Unit.OPERATIONS, 4, lambda quick: Lists("list-delimiter", True)),
    Entry("multipart 1 GiB up, durable", Unit.MEGABYTES, 1.5, lambda quick: MultipartUpload(_gigabyte(quick))),
    Entry("multipart 1 GiB down", Unit.MEGABYTES, 1.5, lambda quick: MultipartDownload(_gigabyte(quick))),
    Entry("DeleteObjects 1,000", Unit.OPERATIONS, 1.5, lambda quick: DeleteBatches(2 if quick else 8)),
)


def _gigabyte(quick: bool) -> int:
    """Number of 16 MiB parts of a multipart object."""
    return 16 if quick else 64
