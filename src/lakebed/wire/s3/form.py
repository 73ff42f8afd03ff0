"""Parses multipart/form-data of POST uploads: a few small fields, then one file as a stream.

Fields must precede the file, because they decide whether the upload is allowed; parts after the file are ignored. Only
the last received piece of the file is buffered. A boundary may be split between two pieces, so the end of a piece that
could begin a boundary is kept for the next one. `next_chunk` returns None only after the whole form was read and is
well-formed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote

from lakebed.wire.aws.errors import AwsFault

__all__ = ["MAX_FIELDS", "MAX_FORM_BYTES", "ChunkSource", "FormFile", "FormReader", "PostForm"]

MAX_FORM_BYTES: Final = 20 * 1024
"""Maximum size of everything before the file: fields, their headers, boundaries."""

MAX_FIELDS: Final = 100

_FILE: Final = "file"
_PARAMETER: Final = re.compile(r'[ \t]*;[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*')
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
"""RFC 2046 §5.1.1."""

_PLAIN_ENCODINGS: Final = frozenset({"7bit", "8bit", "binary"})


class ChunkSource(Protocol):
    """A body that is being received."""

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes, or None at the end."""
        ...


class FormFile:
    """The file of a form. Can be read once."""

    __slots__ = ("_ended", "_scanner", "filename")

    def __init__(self, scanner: _Scanner, filename: str) -> None:
        self._scanner = scanner
        self._ended = False
        self.filename = filename
        """The base name of the client's path; may be empty."""

    @property
    def length(self) -> int | None:
        """Unknown: forms do not contain the length of the file."""
        return None

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes, or None at the end of a well-formed form. Raises AwsFault, Incomplete."""
        if self._ended:
            return None
        piece = await self._scanner.piece()
        if piece is None:
            await self._scanner.skip_rest()
            self._ended = True
        return piece


@dataclass(frozen=True, slots=True)
class PostForm:
    """A form, parsed up to its file."""

    fields: Mapping[str, str]
    """By lower-case name: names are case-insensitive."""

    file: FormFile | None


class FormReader:
    """Reads one form."""

    __slots__ = ("_scanner",)

    def __init__(self, content_type: str | None, body: ChunkSource) -> None:
        """Raises AwsFault if the content type is not that of a form."""
        self._scanner = _Scanner(b"\r\n--" + _read_boundary(content_type or ""), body)

    async def read(self) -> PostForm:
        """Read the fields, up to the file if the form has one. Raises AwsFault, Incomplete."""
        scanner = self._scanner
        fields: dict[str, str] = {}
        await scanner.take_until(scanner.delimiter)  # the preamble is ignored
        while await scanner.part_follows():
            disposition = _read_disposition(await scanner.take_until(b"\r\n\r\n"))
            name = disposition["name"].lower()
            if name == _FILE:
                return PostForm(fields, FormFile(scanner, _read_filename(disposition)))
            if name in fields:
                raise AwsFault(
                    400, "InvalidArgument", "The form contains this field more than once.", ArgumentName=name[:100]
                )
            if len(fields) == MAX_FIELDS:
                raise _too_large()
            fields[name] = _decode(await scanner.take_until(scanner.delimiter))
        return PostForm(fields, None)


class _Scanner:
    """Finds delimiters in a body that arrives in pieces."""

    __slots__ = ("_at", "_body", "_budget", "_buffer", "delimiter")

    def __init__(self, delimiter: bytes, body: ChunkSource) -> None:
        self.delimiter = delimiter
        self._body = body
        self._buffer = b"\r\n"
        """Starts with a line end, so that the first boundary is found like all others."""
        self._at = 0
        self._budget = MAX_FORM_BYTES + len(self._buffer)

    async def _more(self) -> None:
        chunk = await self._body.next_chunk()
        if chunk is None:
            raise _malformed("the form ends before its last boundary")
        rest = self._buffer[self._at :] if self._at else self._buffer
        # Concatenation with an empty value does not copy, nor does `bytes` of bytes.
        self._buffer = rest + bytes(chunk)
        self._at = 0

    async def take_until(self, mark: bytes) -> bytes:
        """The bytes before `mark`, which is skipped. Raises AwsFault if they exceed the budget."""
        searched = self._at
        while (found := self._buffer.find(mark, searched)) < 0:
            overlap = len(mark) - 1
            if len(self._buffer) - self._at - overlap > self._budget:
                raise _too_large()
            seen = len(self._buffer) - self._at
            await self._more()
            searched = max(0, seen - overlap)
        taken = self._buffer[self._at : found]
        self._at = found + len(mark)
        self._budget -= len(taken) + len(mark)
        if self._budget < 0:
            raise _too_large()
        return taken

    async def part_follows(self) -> bool:
        """Whether a part follows the boundary that was just read; none follows the last one."""
        while len(self._buffer) - self._at < 2:
            await self._more()
        if self._buffer.startswith(b"--", self._at):
            return False
        if (await self.take_until(b"\r\n")).strip(b" \t"):
            raise _malformed("a boundary is followed by other characters on its line")
        return True

    async def piece(self) -> bytes | memoryview | None:
        """Bytes before the next boundary; None if there are no more, and the boundary is skipped."""
        while True:
            data, start = self._buffer, self._at
            found = data.find(self.delimiter, start)
            if found == start:
                self._at = found + len(self.delimiter)
                return None
            end = found if found > 0 else self._safe_end()
            if end > start:
                self._at = end
                return data if end - start == len(data) else memoryview(data)[start:end]
            await self._more()

    def _safe_end(self) -> int:
        """The position in the buffer of a possible incomplete boundary; its length if there is none."""
        data = self._buffer
        # A delimiter contains one carriage return, its first byte; so only the last one in the buffer can begin it.
        begin = data.rfind(b"\r", max(self._at, len(data) - len(self.delimiter) + 1))
        return begin if begin >= 0 and self.delimiter.startswith(data[begin:]) else len(data)

    async def skip_rest(self) -> None:
        """Read to the end of the body. Raises AwsFault if the last boundary is missing."""
        self._budget = MAX_FORM_BYTES  # in addition to that of the fields before the file
        while await self.part_follows():
            while await self.piece() is not None:
                pass
        while await self._body.next_chunk() is not None:
            pass


def _read_boundary(content_type: str) -> bytes:
    kind, separator, parameters = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        raise AwsFault(
            412,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold.",
            Condition="Bucket POST must be of the enclosure-type multipart/form-data",
        )
    boundary = _read_parameters(separator + parameters).get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise _malformed("the Content-Type has no valid boundary")
    return boundary.encode("ascii")


def _read_disposition(head: bytes) -> dict[str, str]:
    """The parameters of a part's Content-Disposition, including its name."""
    headers: dict[str, str] = {}
    for line in _decode(head).split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise _malformed("a part's header is malformed")
        headers[name.lower()] = value.strip()
    encoding = headers.get("content-transfer-encoding", "binary")
    if encoding.lower() not in _PLAIN_ENCODINGS:
        raise _malformed("a part has a transfer encoding")  # deprecated by RFC 7578 §4.7
    kind, separator, parameters = headers.get("content-disposition", "").partition(";")
    disposition = _read_parameters(separator + parameters)
    if kind.strip().lower() != "form-data" or not disposition.get("name"):
        raise _malformed("a part has no name")
    return disposition


def _read_parameters(text: str) -> dict[str, str]:
    """Parse `; name=value; name="value"`. A backslash is an escape only before a quote; others belong to paths."""
    parameters: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _PARAMETER.match(text, at)
        if found is None:
            if not text[at:].strip(" \t;"):
                break  # a trailing semicolon
            raise _malformed("a header's parameters are malformed")
        name = found[1].lower()
        if name in parameters:
            raise _malformed("a header contains a parameter more than once")
        parameters[name] = found[3] if found[2] is None else found[2].replace('\\"', '"')
        at = found.end()
    return parameters


def _read_filename(disposition: Mapping[str, str]) -> str:
    filename = disposition.get("filename", "")
    extended = disposition.get("filename*", "").split("'", 2)
    if len(extended) == 3 and extended[0].lower() == "utf-8":  # RFC 8187: how some clients send non-ASCII names
        try:
            filename = unquote(extended[2], errors="strict")
        except UnicodeDecodeError as error:
            raise _malformed("the file's name is not UTF-8") from error
    return re.split(r"[/\\]", filename)[-1]


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("a field is not UTF-8") from error


def _malformed(reason: str) -> AwsFault:
    return AwsFault(
        400,
        "MalformedPOSTRequest",
        "The body of your POST request is not well-formed multipart/form-data.",
        Reason=reason,
    )


def _too_large() -> AwsFault:
    return AwsFault(
        400,
        "MaxPostPreDataLengthExceededError",
        "Your POST request fields preceding the upload file were too large.",
        MaxPostPreDataLength=str(MAX_FORM_BYTES),
    )
