"""A client of the kill test: writes its own keys with all S3 operations, and records what the server acknowledged.

It sends one request at a time. If a response is lost, it checks the outcome of the request on a new connection. A state
that is neither the old nor the new one is a finding.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final
from xml.etree import ElementTree

from tests.fixtures.raw_http import UNSIGNED, Connection, RawResponse, Signer
from tests.fixtures.server import RunningServer

from .ledger import (
    PLAIN,
    VERSIONED,
    Content,
    Ledger,
    PlainStep,
    Step,
    Version,
    VersionStep,
    change_of,
    content_of,
    content_of_parts,
)

_KEYS: Final = 8
_VERSIONED_KEYS: Final = 4
_MOST_VERSIONS: Final = 5
_INLINE_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 5 * 1024 * 1024
_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_POOL: Final = Random(1).randbytes(_PART_BYTES + 1024 * 1024)
_REFUSALS: Final = ((507, "InsufficientStorage"), (503, "ServiceUnavailable"))
_BROKEN: Final = (ConnectionError, TimeoutError, OSError)


@dataclass(slots=True)
class Upload:
    """A multipart upload that is not completed; it survives kills of the server."""

    key: str
    id: str
    sizes: tuple[int, ...]
    parts: list[bytes] = field(default_factory=list)

    @property
    def is_filled(self) -> bool:
        """Whether all parts were acknowledged."""
        return len(self.parts) == len(self.sizes)

    def completion(self) -> tuple[str, str, None, bytes]:
        """The CompleteMultipartUpload request: method, target, no headers, body."""
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{content_of(part).etag}</ETag></Part>"
            for number, part in enumerate(self.parts, 1)
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        return "POST", f"/{PLAIN}/{self.key}?uploadId={self.id}", None, body


class Refused(ConnectionError):
    """The server refused a request for now. Its outcome is checked as after a lost response."""


class Finding(Exception):
    """The server broke a guarantee: `lost` an acknowledged write, shows a `half` write, or responds `wrong`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Client:
    """Writes and checks. `work` and `audit` use separate connections."""

    def __init__(self, name: str, random: Random, *, may_refuse: bool = False) -> None:
        """`may_refuse`: the server can respond that it has no space or is unavailable."""
        self.name = name
        self.refused = 0
        self._may_refuse = may_refuse
        self.ledger = Ledger(
            plain={f"{name}/p{number:02}": None for number in range(_KEYS)},
            versioned={f"{name}/v{number:02}": [] for number in range(_VERSIONED_KEYS)},
        )
        self._random = random
        self._count = 0
        self._upload: Upload | None = None
        self._connection: Connection | None = None
        self._signer = Signer("")
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
            (26, self._put_small),
            (16, self._put_large),
            (10, self._delete),
            (6, self._delete_many),
            (8, self._copy),
            (14, self._put_version),
            (6, self._delete_into_marker),
            (6, self._delete_version),
            (5, self._read),
            (18, self._continue_upload),
        )

    def work(self, server: RunningServer, stop: threading.Event) -> None:
        """Write until `stop` is set or the server is gone. Raises Finding."""
        weights, actions = zip(*self._actions, strict=True)
        while not stop.is_set():
            try:
                if self._connection is None:
                    self._connect(server)
                    self._resolve()
                self._random.choices(actions, weights)[0]()
            except ConnectionRefusedError:
                self._disconnect()
                return
            except _BROKEN:
                # One worker or all of them died: the next connection shows which.
                self._disconnect()
        self._disconnect()

    def audit(self, server: RunningServer, *, everything: bool = False) -> None:
        """Resolve the pending request, then compare the stored state with the acknowledged one."""
        self._connect(server)
        try:
            self._resolve()
            self._audit_plain()
            self._audit_versions(everything=everything)
            self.ledger.touched.clear()
        except _BROKEN as error:
            raise Finding("half", f"a response broke off without a kill: {error!r}") from error
        finally:
            self._disconnect()

    # -- requests -------------------------------------------------------------------------------------------------

    def _connect(self, server: RunningServer) -> None:
        self._signer = Signer(f"127.0.0.1:{server.port}")
        self._connection = Connection(server.port)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(
        self,
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        is_signed: bool = True,
    ) -> RawResponse:
        assert self._connection is not None
        hashed = None if is_signed else UNSIGNED
        response = self._connection.exchange(self._signer.request(method, target, headers, body, payload_hash=hashed))
        if self._may_refuse and (response.status, response.code) in _REFUSALS and method != "GET":
            self.refused += 1
            raise Refused(response.code)
        return response

    def _change(
        self,
        steps: Sequence[Step],
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        is_signed: bool = True,
    ) -> RawResponse:
        """Request a change. It stays pending if the response is lost."""
        self.ledger.begin(steps)
        response = self._send(method, target, headers, body, is_signed=is_signed)
        if response.status >= 300:
            raise Finding("wrong", f"{method} {target} returned {response.status} {response.body!r}")
        self.ledger.confirm(response.request_id, response.headers.get("x-amz-version-id", ""))
        return response

    # -- actions --------------------------------------------------------------------------------------------------

    def _body(self, size: int) -> bytes:
        """A unique body, unless `size` is 0."""
        self._count += 1
        head = f"{self.name}-{self._count:08}-{self._random.getrandbits(64):016x}.".encode()
        start = self._random.randrange(len(_POOL) - size + 1)
        return (head + _POOL[start : start + size])[:size]

    def _put_small(self) -> None:
        self._put(self._body(self._random.choice((0, 500, 4096, 4096, _INLINE_BYTES))))

    def _put_large(self) -> None:
        self._put(self._body(self._random.choice((_INLINE_BYTES + 1, 100_000, 300_000, 1_000_000))))

    def _put(self, body: bytes) -> None:
        key = self._random.choice(list(self.ledger.plain))
        content, headers = self._described(body)
        if self._holds(key, content):
            return
        step = PlainStep(key, content, change_of("ObjectCreated:Put", PLAIN, key, content))
        self._change([step], "PUT", f"/{PLAIN}/{key}", headers, body, is_signed=self._random.random() < 0.5)

    def _holds(self, key: str, content: Content) -> bool:
        """Whether the key already has this content: the outcome of writing it again could not be detected."""
        current = self.ledger.plain[key]
        return current is not None and current.etag == content.etag

    def _described(self, body: bytes) -> tuple[Content, dict[str, str]]:
        """The content of a body, and the headers to send with it."""
        content = content_of(body, has_checksum=self._random.random() < 0.5)
        headers = {"x-amz-checksum-sha256": content.checksum} if content.has_checksum else {}
        if self._random.random() < 0.2:
            headers["x-amz-server-side-encryption"] = "AES256"
        return content, headers

    def _delete(self) -> None:
        key = self._random.choice(list(self.ledger.plain))
        self._change(self._removals([key]), "DELETE", f"/{PLAIN}/{key}")

    def _delete_many(self) -> None:
        keys = self._random.sample(list(self.ledger.plain), 3)
        listed = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        body = f"<Delete>{listed}</Delete>".encode()
        response = self._change(self._removals(keys), "POST", f"/{PLAIN}?delete", None, body)
        if response.body.count(b"<Deleted>") != len(keys):
            raise Finding("wrong", f"a deletion of {keys} returned {response.body!r}")

    def _removals(self, keys: Sequence[str]) -> list[PlainStep]:
        """The steps of a deletion: absent keys do not change."""
        current = [(key, self.ledger.plain[key]) for key in keys]
        return [
            PlainStep(key, None, change_of("ObjectRemoved:Delete", PLAIN, key, content))
            for key, content in current
            if content is not None
        ]

    def _copy(self) -> None:
        source, target = self._random.sample(list(self.ledger.plain), 2)
        content = self.ledger.plain[source]
        if content is None or self._holds(target, content):
            return
        step = PlainStep(target, content, change_of("ObjectCreated:Copy", PLAIN, target, content))
        self._change([step], "PUT", f"/{PLAIN}/{target}", {"x-amz-copy-source": f"/{PLAIN}/{source}"})

    def _put_version(self) -> None:
        key = self._random.choice(list(self.ledger.versioned))
        body = self._body(self._random.choice((100, 4096, 80_000)))
        content, headers = self._described(body)
        change = change_of("ObjectCreated:Put", VERSIONED, key, content)
        self._change(
            [VersionStep(key, change, pushed=Version("", content))], "PUT", f"/{VERSIONED}/{key}", headers, body
        )
        if len(self.ledger.versioned[key]) > _MOST_VERSIONS:
            self._remove_version(key, self.ledger.versioned[key][-1])

    def _delete_into_marker(self) -> None:
        key = self._random.choice(list(self.ledger.versioned))
        change = change_of("ObjectRemoved:DeleteMarkerCreated", VERSIONED, key, None)
        self._change([VersionStep(key, change, pushed=Version("", None))], "DELETE", f"/{VERSIONED}/{key}")
        if len(self.ledger.versioned[key]) > _MOST_VERSIONS:
            self._remove_version(key, self.ledger.versioned[key][-1])

    def _delete_version(self) -> None:
        key = self._random.choice(list(self.ledger.versioned))
        if self.ledger.versioned[key]:
            self._remove_version(key, self._random.choice(self.ledger.versioned[key]))

    def _remove_version(self, key: str, version: Version) -> None:
        change = change_of("ObjectRemoved:Delete", VERSIONED, key, version.content, version.id)
        target = f"/{VERSIONED}/{key}?versionId={version.id}"
        self._change([VersionStep(key, change, removed=version.id)], "DELETE", target)

    def _read(self) -> None:
        key = self._random.choice(list(self.ledger.plain))
        self._check_object(f"/{PLAIN}/{key}", self.ledger.plain[key])

    def _continue_upload(self) -> None:
        """Continue a multipart upload: create it, send a part, or complete it."""
        upload = self._upload
        if upload is None:
            key = self._random.choice(list(self.ledger.plain))
            response = self._send("POST", f"/{PLAIN}/{key}?uploads")
            found = ElementTree.fromstring(response.body).findtext(f"{_NAMESPACE}UploadId")
            if response.status != 200 or not found:
                raise Finding("wrong", f"an upload could not be created: {response.status} {response.body!r}")
            self._upload = Upload(key, found, self._random.choice(((70_000,), (80_000,), (_PART_BYTES, 70_000))))
        elif not upload.is_filled:
            body = self._body(upload.sizes[len(upload.parts)])
            target = f"/{PLAIN}/{upload.key}?partNumber={len(upload.parts) + 1}&uploadId={upload.id}"
            response = self._send("PUT", target, None, body, is_signed=False)
            if response.status != 200 or response.etag != content_of(body).etag:
                raise Finding("wrong", f"a part was not accepted: {response.status} {response.body!r}")
            upload.parts.append(body)
        else:
            content = content_of_parts(upload.parts)
            change = change_of("ObjectCreated:CompleteMultipartUpload", PLAIN, upload.key, content)
            self._change([PlainStep(upload.key, content, change)], *upload.completion())
            self._upload = None

    # -- checks ---------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Check the outcome of the request whose response was lost."""
        for step in list(self.ledger.pending):
            if isinstance(step, PlainStep):
                self._resolve_plain(step)
            else:
                found = self._versions(f"{step.key}", step)[step.key]
                outcome = step.outcome_in(self.ledger.versioned[step.key], found)
                if outcome is None:
                    raise Finding("half", f"{step} left {found} of {self.ledger.versioned[step.key]}")
                self.ledger.settle_version(step, outcome)
        if self._upload is not None and self._upload.is_filled:
            self._repeat_completion(self._upload)

    def _resolve_plain(self, step: PlainStep) -> None:
        before = self.ledger.plain[step.key]
        response = self._send("GET", f"/{PLAIN}/{step.key}", {"x-amz-checksum-mode": "ENABLED"})
        if _has_content(response, step.new):
            self.ledger.settle_plain(step, happened=True)
        elif _has_content(response, before):
            self.ledger.settle_plain(step, happened=False)
        else:
            kind = "lost" if response.status == 404 else "half"
            raise Finding(kind, f"{step} on {before} left {response.status} {response.headers}")

    def _repeat_completion(self, upload: Upload) -> None:
        """Repeat a CompleteMultipartUpload: it succeeds whether or not it had happened, and happens once."""
        content = content_of_parts(upload.parts)
        completed = any(change.etag == content.etag for change in self.ledger.journal)
        if completed:
            response = self._send(*upload.completion())
        else:
            change = change_of("ObjectCreated:CompleteMultipartUpload", PLAIN, upload.key, content)
            response = self._change([PlainStep(upload.key, content, change)], *upload.completion())
        if response.status != 200 or content.etag.encode() not in response.body:
            raise Finding("lost", f"acknowledged parts cannot be completed: {response.status} {response.body!r}")
        self._upload = None

    def _check_object(self, target: str, expected: Content | None) -> None:
        response = self._send("GET", target, {"x-amz-checksum-mode": "ENABLED"})
        if not _has_content(response, expected):
            kind = "lost" if response.status == 404 else "half"
            raise Finding(kind, f"GET {target} expected {expected} found {response.status} {response.headers}")

    def _audit_plain(self) -> None:
        response = self._send("GET", f"/{PLAIN}?list-type=2&prefix={self.name}/")
        listed = {
            _text(entry, "Key"): (_text(entry, "ETag").strip('"'), int(_text(entry, "Size")))
            for entry in ElementTree.fromstring(response.body).iter(f"{_NAMESPACE}Contents")
        }
        plain = self.ledger.plain
        acknowledged = {key: (current.etag, current.size) for key, current in plain.items() if current is not None}
        if listed != acknowledged:
            kind = "lost" if acknowledged.keys() - listed.keys() else "half"
            raise Finding(kind, f"the listing differs. listed={listed} acknowledged={acknowledged}")
        for key, content in plain.items():
            self._check_object(f"/{PLAIN}/{key}", content)

    def _audit_versions(self, *, everything: bool) -> None:
        found = self._versions(f"{self.name}/")
        for key, versions in self.ledger.versioned.items():
            if found.get(key, []) != versions:
                raise Finding("lost", f"versions of {key} differ. listed={found.get(key)} acknowledged={versions}")
            if not everything and key not in self.ledger.touched:
                continue
            newest = versions[0].content if versions else None
            self._check_object(f"/{VERSIONED}/{key}", newest)
            for version in versions:
                if version.content is not None:
                    self._check_object(f"/{VERSIONED}/{key}?versionId={version.id}", version.content)

    def _versions(self, prefix: str, step: VersionStep | None = None) -> dict[str, list[Version]]:
        """The versions of keys, newest first. Contents are identified by ETag and size; unknown ones match nothing."""
        response = self._send("GET", f"/{VERSIONED}?versions&prefix={prefix}")
        found: dict[str, list[Version]] = {step.key: []} if step is not None else {}
        for entry in ElementTree.fromstring(response.body):
            if entry.tag == f"{_NAMESPACE}DeleteMarker":
                found.setdefault(_text(entry, "Key"), []).append(Version(_text(entry, "VersionId"), None))
            elif entry.tag == f"{_NAMESPACE}Version":
                key, etag = _text(entry, "Key"), _text(entry, "ETag").strip('"')
                shown = Content(etag, int(_text(entry, "Size")), "")
                known = [version.content for version in self.ledger.versioned[key]]
                if step is not None and step.pushed is not None:
                    known.append(step.pushed.content)
                content = next((c for c in known if c and (c.etag, c.size) == (shown.etag, shown.size)), shown)
                found.setdefault(key, []).append(Version(_text(entry, "VersionId"), content))
        return found


def _has_content(response: RawResponse, content: Content | None) -> bool:
    """Whether a GET returned exactly this content: its ETag, length, bytes and checksum."""
    if content is None:
        return response.status == 404
    return (
        response.status == 200
        and response.etag == content.etag
        and len(response.body) == content.size
        and hashlib.sha256(response.body).hexdigest() == content.sha256
        and (not content.has_checksum or response.headers.get("x-amz-checksum-sha256") == content.checksum)
    )


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(f"{_NAMESPACE}{name}")
    assert found is not None, f"no {name} in {ElementTree.tostring(element)!r}"
    return found
