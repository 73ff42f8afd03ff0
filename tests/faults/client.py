"""One client of the kill test: writes its own keys in every way there is, and knows what it was promised.

It asks one thing at a time. When an answer does not come it looks, on a new connection, what became of the request, and
goes on; what is neither the old state nor the new one is a finding.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Final
from xml.etree import ElementTree

from tests.fixtures.raw_http import UNSIGNED, Answer, Connection, Signer
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
from .upload import Upload

_KEYS: Final = 8
_VERSIONED_KEYS: Final = 4
_MOST_VERSIONS: Final = 5
_INLINE_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 5 * 1024 * 1024
_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_POOL: Final = Random(1).randbytes(_PART_BYTES + 1024 * 1024)
_REFUSALS: Final = ((507, "InsufficientStorage"), (503, "ServiceUnavailable"))
_BROKEN: Final = (ConnectionError, TimeoutError, OSError)


class Refused(ConnectionError):
    """The server said that it cannot now. Whether it did all the same is found out as if it had not answered."""


class Finding(Exception):
    """The server broke a promise: `lost` what it acknowledged, or shows something by `half`, or answers `wrong`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Client:
    """Writes and checks. `work` and `audit` each use a connection of their own."""

    def __init__(self, name: str, random: Random, *, may_refuse: bool = False) -> None:
        """`may_refuse`: the server may answer that it has no space, or cannot be used now."""
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
        self._acts: Sequence[tuple[int, Callable[[], None]]] = (
            (26, self._put_small),
            (16, self._put_large),
            (10, self._delete),
            (6, self._delete_many),
            (8, self._copy),
            (14, self._put_version),
            (6, self._delete_into_marker),
            (6, self._delete_version),
            (5, self._read),
            (18, self._go_on_with_upload),
        )

    def work(self, server: RunningServer, stop: threading.Event) -> None:
        """Write until told to stop or until the server is gone. Raises Finding."""
        weights, acts = zip(*self._acts, strict=True)
        while not stop.is_set():
            try:
                if self._connection is None:
                    self._connect(server)
                    self._resolve()
                self._random.choices(acts, weights)[0]()
            except ConnectionRefusedError:
                self._hang_up()
                return
            except _BROKEN:
                # A worker died, or all of them: the next connection tells.
                self._hang_up()
        self._hang_up()

    def audit(self, server: RunningServer, *, everything: bool = False) -> None:
        """Find out what became of the request under way, then compare what is there with what was promised."""
        self._connect(server)
        try:
            self._resolve()
            self._audit_plain()
            self._audit_versions(everything=everything)
            self.ledger.touched.clear()
        except _BROKEN as error:
            raise Finding("half", f"an answer broke off while nobody was killed: {error!r}") from error
        finally:
            self._hang_up()

    # -- asking ---------------------------------------------------------------------------------------------------

    def _connect(self, server: RunningServer) -> None:
        self._signer = Signer(f"127.0.0.1:{server.port}")
        self._connection = Connection(server.port)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(
        self,
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        is_signed: bool = True,
    ) -> Answer:
        assert self._connection is not None
        hashed = None if is_signed else UNSIGNED
        answer = self._connection.ask(self._signer.request(method, target, headers, body, payload_hash=hashed))
        if self._may_refuse and (answer.status, answer.code) in _REFUSALS and method != "GET":
            self.refused += 1
            raise Refused(answer.code)
        return answer

    def _change(
        self,
        steps: Sequence[Step],
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        is_signed: bool = True,
    ) -> Answer:
        """Ask for a change; if the answer does not come, it stays pending."""
        self.ledger.begin(steps)
        answer = self._ask(method, target, headers, body, is_signed=is_signed)
        if answer.status >= 300:
            raise Finding("wrong", f"{method} {target} was answered {answer.status} {answer.body!r}")
        self.ledger.confirm(answer.request_id, answer.headers.get("x-amz-version-id", ""))
        return answer

    # -- acts -----------------------------------------------------------------------------------------------------

    def _body(self, size: int) -> bytes:
        """Bytes that no other request has, unless there are none."""
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
        """Whether the key has these bytes: writing them could not be told from not having written them."""
        held = self.ledger.plain[key]
        return held is not None and held.etag == content.etag

    def _described(self, body: bytes) -> tuple[Content, dict[str, str]]:
        """A body's content and the headers it is sent with."""
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
        answer = self._change(self._removals(keys), "POST", f"/{PLAIN}?delete", None, body)
        if answer.body.count(b"<Deleted>") != len(keys):
            raise Finding("wrong", f"a deletion of {keys} was answered {answer.body!r}")

    def _removals(self, keys: Sequence[str]) -> list[PlainStep]:
        """Removing what is absent changes nothing."""
        held = [(key, self.ledger.plain[key]) for key in keys]
        return [
            PlainStep(key, None, change_of("ObjectRemoved:Delete", PLAIN, key, content))
            for key, content in held
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

    def _go_on_with_upload(self) -> None:
        """The next step of a multipart upload: begin it, send a part, complete it."""
        upload = self._upload
        if upload is None:
            key = self._random.choice(list(self.ledger.plain))
            answer = self._ask("POST", f"/{PLAIN}/{key}?uploads")
            found = ElementTree.fromstring(answer.body).findtext(f"{_NAMESPACE}UploadId")
            if answer.status != 200 or not found:
                raise Finding("wrong", f"an upload could not be begun: {answer.status} {answer.body!r}")
            self._upload = Upload(key, found, self._random.choice(((70_000,), (80_000,), (_PART_BYTES, 70_000))))
        elif not upload.is_filled:
            body = self._body(upload.sizes[len(upload.parts)])
            target = f"/{PLAIN}/{upload.key}?partNumber={len(upload.parts) + 1}&uploadId={upload.id}"
            answer = self._ask("PUT", target, None, body, is_signed=False)
            if answer.status != 200 or answer.etag != content_of(body).etag:
                raise Finding("wrong", f"a part was not taken: {answer.status} {answer.body!r}")
            upload.parts.append(body)
        else:
            content = content_of_parts(upload.parts)
            change = change_of("ObjectCreated:CompleteMultipartUpload", PLAIN, upload.key, content)
            self._change([PlainStep(upload.key, content, change)], *upload.completion())
            self._upload = None

    # -- looking --------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Find out what became of the request whose answer never came."""
        for step in list(self.ledger.pending):
            if isinstance(step, PlainStep):
                self._resolve_plain(step)
            else:
                found = self._versions(f"{step.key}", step)[step.key]
                outcome = step.happened_in(self.ledger.versioned[step.key], found)
                if outcome is None:
                    raise Finding("half", f"{step} left {found} of {self.ledger.versioned[step.key]}")
                self.ledger.settle_version(step, outcome)
        if self._upload is not None and self._upload.is_filled:
            self._repeat_completion(self._upload)

    def _resolve_plain(self, step: PlainStep) -> None:
        before = self.ledger.plain[step.key]
        answer = self._ask("GET", f"/{PLAIN}/{step.key}", {"x-amz-checksum-mode": "ENABLED"})
        if _shows(answer, step.new):
            self.ledger.settle_plain(step, happened=True)
        elif _shows(answer, before):
            self.ledger.settle_plain(step, happened=False)
        else:
            kind = "lost" if answer.status == 404 else "half"
            raise Finding(kind, f"{step} on {before} left {answer.status} {answer.headers}")

    def _repeat_completion(self, upload: Upload) -> None:
        """A Complete is good again after a crash, whether or not it had happened, and happens once."""
        content = content_of_parts(upload.parts)
        completed = any(change.etag == content.etag for change in self.ledger.journal)
        if completed:
            answer = self._ask(*upload.completion())
        else:
            change = change_of("ObjectCreated:CompleteMultipartUpload", PLAIN, upload.key, content)
            answer = self._change([PlainStep(upload.key, content, change)], *upload.completion())
        if answer.status != 200 or content.etag.encode() not in answer.body:
            raise Finding("lost", f"parts that were acknowledged cannot be completed: {answer.status} {answer.body!r}")
        self._upload = None

    def _check_object(self, target: str, expected: Content | None) -> None:
        answer = self._ask("GET", target, {"x-amz-checksum-mode": "ENABLED"})
        if not _shows(answer, expected):
            kind = "lost" if answer.status == 404 else "half"
            raise Finding(kind, f"GET {target} expected {expected} found {answer.status} {answer.headers}")

    def _audit_plain(self) -> None:
        answer = self._ask("GET", f"/{PLAIN}?list-type=2&prefix={self.name}/")
        listed = {
            _text(entry, "Key"): (_text(entry, "ETag").strip('"'), int(_text(entry, "Size")))
            for entry in ElementTree.fromstring(answer.body).iter(f"{_NAMESPACE}Contents")
        }
        plain = self.ledger.plain
        promised = {key: (held.etag, held.size) for key, held in plain.items() if held is not None}
        if listed != promised:
            kind = "lost" if promised.keys() - listed.keys() else "half"
            raise Finding(kind, f"the listing differs. listed={listed} promised={promised}")
        for key, content in plain.items():
            self._check_object(f"/{PLAIN}/{key}", content)

    def _audit_versions(self, *, everything: bool) -> None:
        found = self._versions(f"{self.name}/")
        for key, versions in self.ledger.versioned.items():
            if found.get(key, []) != versions:
                raise Finding("lost", f"versions of {key} differ. listed={found.get(key)} promised={versions}")
            if not everything and key not in self.ledger.touched:
                continue
            newest = versions[0].content if versions else None
            self._check_object(f"/{VERSIONED}/{key}", newest)
            for version in versions:
                if version.content is not None:
                    self._check_object(f"/{VERSIONED}/{key}?versionId={version.id}", version.content)

    def _versions(self, prefix: str, step: VersionStep | None = None) -> dict[str, list[Version]]:
        """The versions of keys, newest first. Contents are told by ETag and size; unknown ones match nothing."""
        answer = self._ask("GET", f"/{VERSIONED}?versions&prefix={prefix}")
        found: dict[str, list[Version]] = {step.key: []} if step is not None else {}
        for entry in ElementTree.fromstring(answer.body):
            if entry.tag == f"{_NAMESPACE}DeleteMarker":
                found.setdefault(_text(entry, "Key"), []).append(Version(_text(entry, "VersionId"), None))
            elif entry.tag == f"{_NAMESPACE}Version":
                key, etag = _text(entry, "Key"), _text(entry, "ETag").strip('"')
                shown = Content(etag, int(_text(entry, "Size")), "")
                known = [one.content for one in self.ledger.versioned[key]]
                if step is not None and step.pushed is not None:
                    known.append(step.pushed.content)
                content = next((c for c in known if c and (c.etag, c.size) == (shown.etag, shown.size)), shown)
                found.setdefault(key, []).append(Version(_text(entry, "VersionId"), content))
        return found


def _shows(answer: Answer, content: Content | None) -> bool:
    """Whether a GET's answer is this content, wholly: its tag, its length, every byte, and its checksum."""
    if content is None:
        return answer.status == 404
    return (
        answer.status == 200
        and answer.etag == content.etag
        and len(answer.body) == content.size
        and hashlib.sha256(answer.body).hexdigest() == content.sha256
        and (not content.has_checksum or answer.headers.get("x-amz-checksum-sha256") == content.checksum)
    )


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(f"{_NAMESPACE}{name}")
    assert found is not None, f"no {name} in {ElementTree.tostring(element)!r}"
    return found
