"""The request paths that are measured: each a bucket to prepare, a right response to check, and a round to run."""

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
    """How a path's speed is told."""

    OPERATIONS = "op/s"
    MEGABYTES = "MB/s"


class Scenario(Protocol):
    """One request path."""

    @property
    def name(self) -> str:
        """What `--only` takes."""
        ...

    @property
    def bucket(self) -> str:
        """The bucket it has to itself."""
        ...

    def prepare(self, site: Site) -> None:
        """Seed the (empty) bucket."""
        ...

    def check(self, site: Site, signing: Signing) -> None:
        """Raise unless the server answers this path rightly, to the byte."""
        ...

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Load the server for about `seconds`; `number` tells rounds apart."""
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
        """Its own."""
        return self.name

    def prepare(self, site: Site) -> None:
        """One object a key."""
        body = site.bodies.noise(self.size)
        site.tool.deliver(site.endpoint, [Request("PUT", request.path, body=body) for request in self._requests()])

    def check(self, site: Site, signing: Signing) -> None:
        """The bytes are those that were put."""
        response = site.endpoint.call(self._requests()[0], signing)
        if self.method == "GET" and hashlib.sha256(response.body).hexdigest() != site.bodies.noise(self.size).sha256:
            raise RuntimeError(f"wrong bytes came back. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Round and round over the keys."""
        return site.measure(lambda: site.tool.run(site.endpoint, self._requests(), signing, seconds=seconds))

    def _requests(self) -> list[Request]:
        paths = (f"/{self.bucket}/{index:06d}" for index in range(self.keys))
        return [Request(self.method, path, length=(self.size, self.size)) for path in paths]


@dataclass(frozen=True, slots=True)
class Writes:
    """PUT of objects of one size: to new keys each round, which are overwritten once the round has used them up."""

    name: str
    size: int
    keys: int
    fresh: bool
    """False: every round writes the same keys, so that large bodies do not fill the disk."""

    @property
    def bucket(self) -> str:
        """Its own."""
        return self.name

    def prepare(self, site: Site) -> None:
        """Nothing: the bucket starts empty."""

    def check(self, site: Site, signing: Signing) -> None:
        """What was put comes back."""
        body = site.bodies.noise(self.size)
        path = f"/{self.bucket}/checked"
        site.endpoint.call(Request("PUT", path, body=body), signing)
        response = site.endpoint.call(Request("GET", path, length=(self.size, self.size)))
        if hashlib.sha256(response.body).hexdigest() != body.sha256:
            raise RuntimeError(f"wrong bytes came back. server={site.server.recipe.name} scenario={self.name}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Write, round and round."""
        body = site.bodies.noise(self.size)
        prefix = f"{signing.value}-{number if self.fresh else 0}"
        requests = [Request("PUT", f"/{self.bucket}/{prefix}/{index:06d}", body=body) for index in range(self.keys)]
        return site.measure(lambda: site.tool.run(site.endpoint, requests, signing, seconds=seconds))


@dataclass(frozen=True, slots=True)
class Lists:
    """ListObjectsV2, pages of 1,000 entries from several places in the bucket."""

    name: str
    delimited: bool
    """1,000 folders of 4 keys, listed as common prefixes; else 4,000 keys, listed as keys."""

    @property
    def bucket(self) -> str:
        """Its own."""
        return self.name

    def prepare(self, site: Site) -> None:
        """The keys to list."""
        body = site.bodies.noise(LISTED_BYTES)
        requests = [Request("PUT", f"/{self.bucket}/{self.key(index)}", body=body) for index in range(LISTED_KEYS)]
        site.tool.deliver(site.endpoint, requests)

    def key(self, index: int) -> str:
        """The key at one place in the order."""
        return f"folder-{index // 4:06d}/{index % 4:06d}" if self.delimited else f"object-{index:08d}"

    def check(self, site: Site, signing: Signing) -> None:
        """Every page is full."""
        for request in self._requests():
            found = site.endpoint.call(request, signing).count("CommonPrefixes" if self.delimited else "Contents")
            if found != PAGE:
                raise RuntimeError(f"page is not full. server={site.server.recipe.name} entries={found}")

    def round(self, site: Site, signing: Signing, number: int, seconds: float) -> Sample:
        """Page after page."""
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
    """A row of the table: a scenario, how it is told and what it should reach beside the peer."""

    title: str
    unit: Unit
    goal: float
    make: Callable[[bool], Scenario]
    """Called with True for a quick run."""
    stretch: float = 1
    """How many times the usual seconds a round lasts: long operations need more of them."""


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
    """Parts of 16 MiB in a multipart object."""
    return 16 if quick else 64
