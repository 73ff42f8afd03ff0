"""What is passed on to the catalog behind this one, and what of its answers is passed back. Pure.

A body that rights were asked about is written anew, from what was read of it: JSON may name a field twice, and the
other side might read the other one.
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
"""Most tables of one transaction."""

CREDENTIALS_ENDPOINT: Final = "client.refresh-credentials-endpoint"

_PLAIN: Final = frozenset(
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
"""Settings of clients that tell where files are, and open nothing."""

_OF_THE_SESSION: Final = ("token", "oauth2", "rest.", "header.", "credential", "auth.", "scope", "audience", "urn:")
"""How settings begin that speak of a client's session with the catalog: that is with this server, not the other."""

_OF_SIGNING: Final = ("signer.", "s3.signer", "s3.remote-signing")
"""How settings begin that have requests signed by the other side: it would be shown the client's token for this one."""

_encode = msgspec.json.Encoder().encode


# -- what is asked -----------------------------------------------------------------------------------------------


class Name(msgspec.Struct):
    """A table or view by name, as documents have it."""

    namespace: list[str]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The name, checked. Raises InvalidName."""
        return check_identifier(self.namespace, self.name)


class Rename(msgspec.Struct):
    """A table or view that gets another name."""

    source: Name
    destination: Name


class Registration(msgspec.Struct, rename="kebab"):
    """A metadata file that gets a name."""

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
class Change:
    """A commit to one table or view: what rights are asked about, and the document."""

    identifier: Identifier
    creates: bool
    kinds: tuple[str, ...]
    """Of its updates."""
    document: dict[str, Any]


def read(body: bytes | Raw, kind: type[T]) -> T:
    """A document. Raises InvalidInput that says where it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the request document cannot be read: {error}") from error


def written(document: object) -> bytes:
    """A document, to be sent."""
    return _encode(document)


def read_named(body: bytes) -> tuple[str, bool, bytes]:
    """The name of what a document creates, whether it is only staged, and the document. Raises InvalidInput."""
    fields = read(body, Fields)
    if "name" not in fields:
        raise InvalidInput("the request document has no name", argument="name")
    staged = bytes(fields.get("stage-create", Raw(b"false"))).strip()
    if staged not in (b"true", b"false", b"null"):
        raise InvalidInput("stage-create is true or false", argument="stage-create")
    return read(fields["name"], str), staged == b"true", written(fields)


def read_change(body: bytes | Raw, identifier: Identifier | None = None) -> Change:
    """A commit; to the table in the path, if there is one, or to the one that it names. Raises InvalidInput."""
    fields = read(body, Fields)
    named = read(fields["identifier"], Name) if "identifier" in fields else None
    about = identifier or (named.identifier if named is not None else None)
    if about is None:
        raise InvalidInput("a change names its table", argument="identifier")
    if named is not None and named.identifier != about:
        raise InvalidInput("the identifier in the document is not the one in the path", argument="identifier")
    requirements = read(fields.get("requirements", Raw(b"[]")), list[Fields])
    updates = read(fields.get("updates", Raw(b"[]")), list[Fields])
    document: dict[str, Any] = {
        **fields,
        "requirements": requirements,
        "updates": updates,
    }
    if named is not None:
        document["identifier"] = named
    return Change(
        about,
        any(read(written(one), _Requirement).type == "assert-create" for one in requirements),
        tuple(read(written(one), _Update).action for one in updates),
        document,
    )


def read_transaction(body: bytes) -> list[Change]:
    """The commits of a transaction. Raises InvalidInput."""
    changes = [read_change(one) for one in read(body, _Transaction).table_changes]
    if not 1 <= len(changes) <= MAX_TABLES:
        raise InvalidInput(f"a transaction changes 1 to {MAX_TABLES} tables", argument="table-changes")
    return changes


# -- what is answered ---------------------------------------------------------------------------------------------


class ToldMetadata(msgspec.Struct, rename="kebab"):
    """What an answer says of the metadata of a table or view."""

    table_uuid: str | None = None
    view_uuid: str | None = None
    current_snapshot_id: int | None = None


class Told(msgspec.Struct, rename="kebab"):
    """What an answer with a table or view says of it, for events."""

    metadata: ToldMetadata = msgspec.field(default_factory=ToldMetadata)
    metadata_location: str | None = None


def shown_table(answer: Fields, *, with_keys: bool, credentials_path: str) -> Fields:
    """An answer that shows a table, with no more than its reader may have."""
    shown = dict(answer)
    if "config" in shown:
        config = _texts(_decoded(shown["config"]))
        shown["config"] = Raw(_encode(shown_config(config, with_keys=with_keys, credentials_path=credentials_path)))
    if "storage-credentials" in shown:
        if with_keys:
            shown["storage-credentials"] = shown_credentials(shown["storage-credentials"], credentials_path)
        else:
            del shown["storage-credentials"]
    return shown


def shown_credentials(credentials: Raw, credentials_path: str) -> Raw:
    """Keys, with no word of a session that is not with this server."""
    found = _decoded(credentials)
    shown = [
        {
            "prefix": one["prefix"],
            "config": shown_config(_texts(one.get("config")), with_keys=True, credentials_path=credentials_path),
        }
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict) and isinstance(one.get("prefix"), str)
    ]
    return Raw(_encode(shown))


def shown_config(config: Mapping[str, str], *, with_keys: bool, credentials_path: str) -> dict[str, str]:
    """Settings for a client: to one who gets no keys, only those that are known to open nothing."""
    if not with_keys:
        return {name: value for name, value in config.items() if name in _PLAIN}
    shown = {
        name: value
        for name, value in config.items()
        if not name.startswith((*_OF_THE_SESSION, *_OF_SIGNING)) and name not in ("uri", "prefix", "warehouse")
    }
    if CREDENTIALS_ENDPOINT in shown:
        # Here, where it is asked again who may. What the other side wants repeated is repeated.
        _, question, query = shown[CREDENTIALS_ENDPOINT].partition("?")
        shown[CREDENTIALS_ENDPOINT] = f"{credentials_path}{question}{query}"
    return shown


def _decoded(value: Raw) -> object:
    """A part of an answer; None if it cannot be read."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _texts(config: object) -> dict[str, str]:
    """Settings in an answer; those that are no text are nobody's."""
    if not isinstance(config, dict):
        return {}
    return {name: value for name, value in config.items() if isinstance(value, str)}


# -- entity tags --------------------------------------------------------------------------------------------------

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')


def marked_tag(tag: str, mark: str) -> str:
    """A tag of the other side's, with what of the answer was shown."""
    return _TAG.sub(rf'\1"\2;{mark}"', tag, count=1)


def unmarked_tags(stated: str, mark: str) -> str:
    """The tags that a client has, as the other side knows them: those of answers that were shown in the same way."""
    ending = f";{mark}"
    found: Iterable[re.Match[str]] = _TAG.finditer(stated)
    return ", ".join(f'{one[1] or ""}"{one[2].removesuffix(ending)}"' for one in found if one[2].endswith(ending))
