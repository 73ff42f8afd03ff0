"""Reads CSV by S3's rules, character by character; `csv_reader.py` is the fast path.

A field is quoted if it begins with the quote. Inside, the escape character makes the next character literal, as does a
quote before a quote; after the closing quote the field continues to its delimiter. A quote elsewhere is literal.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import SelectCode, failure
from ..model import MAX_RECORD_BYTES, CsvInput
from ..sources.record_blocks import record_too_long


def read_records(text: str, options: CsvInput) -> Iterator[list[str]]:
    """The records of a text that ends with a whole record. Skips blank lines and comments. Raises SelectError."""
    return _Reader(text, options).records()


def decode(data: bytes) -> str:
    """Decode an object's text. Raises SelectError (InvalidTextEncoding)."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise failure(SelectCode.INVALID_TEXT_ENCODING, "the object is not valid UTF-8") from error


class _Reader:
    def __init__(self, text: str, options: CsvInput) -> None:
        self._text = text
        self._at = 0
        self._options = options
        self._quote = options.quote
        self._field = options.field_delimiter
        self._ends = ["\r\n", "\n"] if options.record_delimiter == "\n" else [options.record_delimiter]

    def records(self) -> Iterator[list[str]]:
        while self._at < len(self._text):
            if self._skipped():
                continue
            start = self._at
            record = self._record()
            if self._at - start > MAX_RECORD_BYTES and len(self._text[start : self._at].encode()) > MAX_RECORD_BYTES:
                raise record_too_long()
            yield record

    def _skipped(self) -> bool:
        end = self._end_at(self._at)
        if end:
            self._at += len(end)
            return True
        comments = self._options.comments
        if comments and self._text.startswith(comments, self._at):
            self._at = self._after_record(self._at)
            return True
        return False

    def _record(self) -> list[str]:
        stop = len(self._text)
        if not self._options.allow_quoted_record_delimiter:
            # A record ends at its delimiter, even inside quotes.
            stop = self._next_end(self._at)
        record: list[str] = []
        while True:
            value, more = self._value(stop)
            record.append(value)
            if not more:
                break
        end = self._end_at(self._at)
        self._at += len(end)
        return record

    def _value(self, stop: int) -> tuple[str, bool]:
        """The next field, and whether another follows."""
        value = ""
        if self._quote and self._text.startswith(self._quote, self._at):
            value = self._quoted(stop)
        end = min(self._next_end(self._at), stop)
        found = self._text.find(self._field, self._at, end)
        if found < 0:
            value += self._text[self._at : end]
            self._at = end
            return value, False
        value += self._text[self._at : found]
        self._at = found + len(self._field)
        return value, True

    def _quoted(self, stop: int) -> str:
        text, quote, escape = self._text, self._quote, self._options.escape
        parts: list[str] = []
        at = self._at + len(quote)
        while True:
            found = text.find(quote, at, stop)
            escaped = text.find(escape, at, stop if found < 0 else found) if escape and escape != quote else -1
            if escaped >= 0:
                parts.append(text[at:escaped])
                at = escaped + len(escape)
                if at >= stop:
                    raise self._unclosed()
                parts.append(text[at])
                at += 1
                continue
            if found < 0:
                raise self._unclosed()
            parts.append(text[at:found])
            at = found + len(quote)
            if not text.startswith(quote, at) or at >= stop:
                self._at = at
                return "".join(parts)
            parts.append(quote)
            at += len(quote)

    def _unclosed(self) -> Exception:
        if self._options.allow_quoted_record_delimiter:
            return failure(SelectCode.CSV_UNESCAPED_QUOTE, "unterminated quote")
        return failure(
            SelectCode.CSV_ESCAPING_RECORD_DELIMITER,
            "unterminated quote at the end of the record; allow quoted record delimiters if they are intended",
        )

    def _end_at(self, at: int) -> str:
        return next((end for end in self._ends if self._text.startswith(end, at)), "")

    def _next_end(self, at: int) -> int:
        """The start of the record's delimiter, or the end of the text."""
        found = self._text.find(self._ends[-1], at)
        if found < 0:
            return len(self._text)
        if len(self._ends) > 1 and found > at and self._text[found - 1] == "\r":
            return found - 1
        return found

    def _after_record(self, at: int) -> int:
        end = self._next_end(at)
        return end + len(self._end_at(end))
