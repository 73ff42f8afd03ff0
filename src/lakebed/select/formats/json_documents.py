"""Finds the values of a JSON document that spans many lines, holding one value at a time.

A path is followed in the text down to its first wildcard, so that a list of any length is read element by element.
Everything else is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ..dialect.paths import FieldName, Index, PathWildcard, Step
from ..errors import SelectCode, SelectError, failure
from ..model import MAX_RECORD_BYTES
from ..sources.record_blocks import record_too_long
from ..sources.snappy_frames import ByteReader

_FETCH_BYTES: Final = 256 * 1024
_SPACE: Final = b" \t\r\n"
_STRUCTURE: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR: Final = re.compile(rb'[^\s{}\[\],:"]+')


class DocumentScanner:
    """The values at a path in each value of a stream, as JSON; None for a value without a match."""

    def __init__(self, stream: ByteReader, path: Sequence[Step]) -> None:
        self._stream = stream
        self._path = tuple(path)
        self._buffer = b""
        self._at = 0
        self._ended = False

    def values(self) -> Iterator[bytes | None]:
        """The values in sequence. Raises SelectError (JSONParsingError, OverMaxRecordSize)."""
        if self._peek(3) == b"\xef\xbb\xbf":
            self._at += 3
        while self._next_character():
            found = 0
            for value in self._walk(self._path):
                found += 1
                yield value
            if not found:
                yield None

    def _walk(self, path: tuple[Step, ...]) -> Iterator[bytes]:
        if not path:
            yield self._value(keep=True)
            return
        step, rest = path[0], path[1:]
        opening = self._next_character()
        if isinstance(step, FieldName) and opening == b"{":
            yield from self._fields(step, rest)
        elif isinstance(step, Index) and opening == b"[":
            yield from self._elements(step.number, rest)
        elif isinstance(step, PathWildcard) and opening == (b"{" if step.fields else b"["):
            yield from self._fields(None, rest) if step.fields else self._elements(None, rest)
        else:
            self._value(keep=False)

    def _fields(self, wanted: FieldName | None, rest: tuple[Step, ...]) -> Iterator[bytes]:
        taken = False
        self._at += 1
        if self._next_character() == b"}":
            self._at += 1
            return
        while True:
            name = self._name()
            self._expect(b":")
            if wanted is None or (not taken and wanted.matches(name)):
                taken = True
                yield from self._walk(rest)
            else:
                self._value(keep=False)
            if self._expect(b",", b"}") == b"}":
                return

    def _elements(self, wanted: int | None, rest: tuple[Step, ...]) -> Iterator[bytes]:
        self._at += 1
        if self._next_character() == b"]":
            self._at += 1
            return
        number = 0
        while True:
            if wanted is None or number == wanted:
                yield from self._walk(rest)
            else:
                self._value(keep=False)
            number += 1
            if self._expect(b",", b"]") == b"]":
                return

    def _name(self) -> str:
        if self._next_character() != b'"':
            raise _malformed("a name is expected")
        try:
            return msgspec.json.decode(self._value(keep=True), type=str)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _malformed("a name cannot be read") from error

    def _value(self, *, keep: bool) -> bytes:
        """Consume the next value; its text if `keep`."""
        opening = self._next_character()
        if not opening:
            raise _malformed("a value is expected")
        if opening == b'"':
            return self._matched(_STRING)
        if opening not in (b"{", b"["):
            return self._matched(_SCALAR)
        kept: list[bytes] = []
        size = depth = 0
        start = self._at
        while True:
            match = _STRUCTURE.search(self._buffer, self._at)
            token = match[0] if match is not None else b""
            if match is None or token == b'"':
                # Read more: no structural character left, or a string continues beyond the buffer.
                stop = len(self._buffer) if match is None else match.start()
                if keep:
                    kept.append(self._buffer[start:stop])
                    size += stop - start
                    if size > MAX_RECORD_BYTES:
                        raise record_too_long()
                self._at = stop
                self._fetch()
                start = self._at
                continue
            self._at = match.end()
            if token in (b"{", b"["):
                depth += 1
            elif token in (b"}", b"]"):
                depth -= 1
                if depth == 0:
                    break
        if not keep:
            return b""
        kept.append(self._buffer[start : self._at])
        if size + self._at - start > MAX_RECORD_BYTES:
            raise record_too_long()
        return b"".join(kept)

    def _matched(self, pattern: re.Pattern[bytes]) -> bytes:
        """Consume a string or a scalar, which may end at the end of the buffer only if the stream ends there."""
        while True:
            match = pattern.match(self._buffer, self._at)
            if match is not None and (match.end() < len(self._buffer) or self._ended):
                self._at = match.end()
                return match[0]
            if self._ended:
                raise _malformed("unterminated value")
            if len(self._buffer) - self._at > MAX_RECORD_BYTES:
                raise record_too_long()
            self._fetch()

    def _expect(self, *characters: bytes) -> bytes:
        found = self._next_character()
        if found not in characters:
            raise _malformed(f"{' or '.join(character.decode() for character in characters)} is expected")
        self._at += 1
        return found

    def _next_character(self) -> bytes:
        """The next character that is not white space, without consuming it; empty at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._buffer) or self._ended:
                return self._buffer[self._at : self._at + 1]
            self._more()

    def _peek(self, count: int) -> bytes:
        while len(self._buffer) - self._at < count and not self._ended:
            self._more()
        return self._buffer[self._at : self._at + count]

    def _fetch(self) -> None:
        if self._ended:
            raise _malformed("object ends within a value")
        if len(self._buffer) - self._at > MAX_RECORD_BYTES:
            raise record_too_long()
        self._more()

    def _more(self) -> None:
        data = self._stream.read(_FETCH_BYTES)
        self._ended = len(data) < _FETCH_BYTES
        self._buffer = self._buffer[self._at :] + data
        self._at = 0


def _malformed(reason: str) -> SelectError:
    return failure(SelectCode.JSON_PARSING_ERROR, f"the object is not valid JSON: {reason}")
