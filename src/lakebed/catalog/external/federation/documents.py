"""Documents forwarded to an external catalog, and its responses reduced to what the client may have. Pure.

A body that authorization depends on is encoded again after decoding: JSON may name a field twice, and the external
catalog might read the other one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.core.errors import InvalidInput

T = TypeVar("T")
Fields = dict[str, Raw]

MAX_TABLES: Final = 1024
"""The most tables of one transaction."""

CREDENTIALS_ENDPOINT: Final = "client.refresh-credentials-endpoint"

_HARMLESS: Final = frozenset(
    {
        "adls.connection-string-host",
        "client.region",
        "gcs.project-id",
        "gcs.service.host",
        "io-impl",
        "py-io-impl",
        "s3.endpoint",
        "s3.path-style-access",
        "s3.region",
        "s3.use-arn-region-enabled",
    }
)
"""Client settings that locate files and grant no access."""

_SESSION_PREFIXES: Final = ("token", "oauth2", "rest.", "header.", "credential", "auth.", "scope", "audience", "urn:")
"""Prefixes of settings for the client's session with its catalog: its session is with this server."""

_SIGNING_PREFIXES: Final = ("signer.", "s3.signer", "s3.remote-signing")
"""Prefixes of settings for remote signing: the client would send its token for this server to the external catalog."""

_encode = msgspec.json.Encoder().encode


# -- requests ---------------------------------------------------------------------------------------------------


class EntryName(msgspec.Struct):
    """A table or view by name, as documents spell it."""

    namespace: list[str]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The name, checked. Raises InvalidName."""
        return check_identifier(self.namespace, self.name)


class ForwardedRegistration(msgspec.Struct, rename="kebab"):
    """The body of registerTable and registerView."""

    name: str
    metadata_location: str
    overwrite: bool = False


class _Requirement(msgspec.Struct):
    type: str = ""


class _Update(msgspec.Struct):
    action: str = ""


class _Transaction(msgspec.Struct, rename="kebab"):
    table_changes: list[Raw]


@dataclass(frozen=True, slots=True)
class ForwardedCommit:
    """A commit to one table or view: the parts that authorization depends on, and the document."""

    identifier: Identifier
    creates: bool
    kinds: tuple[str, ...]
    """The kinds of its updates."""
    document: dict[str, Any]


def decode_document(body: bytes | Raw, kind: type[T]) -> T:
    """Decode a document. Raises InvalidInput with the place of the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the request document cannot be read: {error}") from error


def encode_document(document: object) -> bytes:
    """Encode a document."""
    return _encode(document)


def read_creation(body: bytes) -> tuple[str, bool, bytes]:
    """The name in the body of a creation, whether it is staged, and the document. Raises InvalidInput."""
    fields = decode_document(body, Fields)
    if "name" not in fields:
        raise InvalidInput("the request document requires a name", argument="name")
    staged = bytes(fields.get("stage-create", Raw(b"false"))).strip()
    if staged not in (b"true", b"false", b"null"):
        raise InvalidInput("stage-create must be true or false", argument="stage-create")
    return decode_document(fields["name"], str), staged == b"true", encode_document(fields)


def read_commit(body: bytes | Raw, identifier: Identifier | None = None) -> ForwardedCommit:
    """A commit to the table in the path, if the path has one, or to the table in the document. Raises InvalidInput."""
    fields = decode_document(body, Fields)
    named = decode_document(fields["identifier"], EntryName) if "identifier" in fields else None
    target = identifier or (named.identifier if named is not None else None)
    if target is None:
        raise InvalidInput("a table change requires an identifier", argument="identifier")
    if named is not None and named.identifier != target:
        raise InvalidInput("the identifier in the document must match the path", argument="identifier")
    requirements = decode_document(fields.get("requirements", Raw(b"[]")), list[Fields])
    updates = decode_document(fields.get("updates", Raw(b"[]")), list[Fields])
    document: dict[str, Any] = {
        **fields,
        "requirements": requirements,
        "updates": updates,
    }
    if named is not None:
        document["identifier"] = named
    return ForwardedCommit(
        target,
        any(decode_document(encode_document(one), _Requirement).type == "assert-create" for one in requirements),
        tuple(decode_document(encode_document(one), _Update).action for one in updates),
        document,
    )


def read_transaction(body: bytes) -> list[ForwardedCommit]:
    """The commits of a transaction. Raises InvalidInput."""
    commits = [read_commit(one) for one in decode_document(body, _Transaction).table_changes]
    if not 1 <= len(commits) <= MAX_TABLES:
        raise InvalidInput(f"a transaction must change 1 to {MAX_TABLES} tables", argument="table-changes")
    return commits


# -- responses --------------------------------------------------------------------------------------------------


class MetadataSummary(msgspec.Struct, rename="kebab"):
    """The metadata in a response with a table or view, as far as events need it."""

    table_uuid: str | None = None
    view_uuid: str | None = None
    current_snapshot_id: int | None = None


class EntrySummary(msgspec.Struct, rename="kebab"):
    """A response with a table or view, as far as events need it."""

    metadata: MetadataSummary = msgspec.field(default_factory=MetadataSummary)
    metadata_location: str | None = None


def filter_table(response: Fields, *, with_credentials: bool, credentials_path: str) -> Fields:
    """A response with a table, reduced to what the caller may have."""
    filtered = dict(response)
    if "config" in filtered:
        config = _texts(_decoded(filtered["config"]))
        filtered["config"] = Raw(
            _encode(filter_config(config, with_credentials=with_credentials, credentials_path=credentials_path))
        )
    if "storage-credentials" in filtered:
        if with_credentials:
            filtered["storage-credentials"] = filter_credentials(filtered["storage-credentials"], credentials_path)
        else:
            del filtered["storage-credentials"]
    return filtered


def filter_credentials(credentials: Raw, credentials_path: str) -> Raw:
    """Vended credentials, without settings for a session with the external catalog."""
    found = _decoded(credentials)
    filtered = [
        {
            "prefix": one["prefix"],
            "config": filter_config(
                _texts(one.get("config")), with_credentials=True, credentials_path=credentials_path
            ),
        }
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict) and isinstance(one.get("prefix"), str)
    ]
    return Raw(_encode(filtered))


def filter_config(config: Mapping[str, str], *, with_credentials: bool, credentials_path: str) -> dict[str, str]:
    """Client settings; without credentials, only those known to grant no access."""
    if not with_credentials:
        return {name: value for name, value in config.items() if name in _HARMLESS}
    filtered = {
        name: value
        for name, value in config.items()
        if not name.startswith((*_SESSION_PREFIXES, *_SIGNING_PREFIXES)) and name not in ("uri", "prefix", "warehouse")
    }
    if CREDENTIALS_ENDPOINT in filtered:
        # Renewed through this server, which authorizes again. The query is the external catalog's.
        _, question, query = filtered[CREDENTIALS_ENDPOINT].partition("?")
        filtered[CREDENTIALS_ENDPOINT] = f"{credentials_path}{question}{query}"
    return filtered


def _decoded(value: Raw) -> object:
    """A part of a response; None if it is not valid."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _texts(config: object) -> dict[str, str]:
    """The settings of a response that are strings."""
    if not isinstance(config, dict):
        return {}
    return {name: value for name, value in config.items() if isinstance(value, str)}


# -- entity tags --------------------------------------------------------------------------------------------------

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')


def mark_etag(tag: str, mark: str) -> str:
    """The external catalog's entity tag, marked with the parts of the response that the client got."""
    return _TAG.sub(rf'\1"\2;{mark}"', tag, count=1)


def unmark_etags(stated: str, mark: str) -> str:
    """The client's entity tags with the same mark, as the external catalog issued them."""
    ending = f";{mark}"
    found: Iterable[re.Match[str]] = _TAG.finditer(stated)
    return ", ".join(f'{one[1] or ""}"{one[2].removesuffix(ending)}"' for one in found if one[2].endswith(ending))
