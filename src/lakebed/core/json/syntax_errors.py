"""Describes JSON syntax errors by line and column, for documents written by hand."""

from __future__ import annotations

import json


def describe_json_error(text: bytes) -> str:
    """The syntax error by line and column. Quotes nothing of the text."""
    try:
        json.loads(text.decode())
    except UnicodeDecodeError as error:
        line, column = _position(text, error.start)
        return f"line {line} column {column}: not UTF-8"
    except json.JSONDecodeError as error:
        return f"line {error.lineno} column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:  # a number with more digits than Python converts
        return str(error)
    return "valid JSON, but not of the expected structure"


def _position(text: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, counted from one."""
    before = text[:offset]
    return before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1


__all__ = ["describe_json_error"]
