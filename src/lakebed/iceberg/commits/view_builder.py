"""Applies the updates of a commit, in order, to view metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidViewVersion

from ..documents import read, rewrite, same_meaning
from ..metadata.table import FORMAT_VERSIONS
from ..metadata.views import (
    VIEW_FORMAT_VERSION,
    ViewHistoryEntry,
    ViewMetadata,
    ViewVersion,
    history_entry,
    parse_version,
)
from ..schema import Schema, check_format, parse_schema, reuse_or_number
from .builder import check_uuid, without_trailing_slash
from .properties import DROP_DIALECT_ALLOWED, check_properties, version_history_size
from .schema_updates import chosen_id
from .updates import (
    LAST_ADDED,
    AddSchema,
    AddViewVersion,
    AssignUuid,
    RemoveProperties,
    SetCurrentViewVersion,
    SetLocation,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)

__all__ = ["build_view"]

_IGNORED_FIELDS: Final = frozenset({"version-id", "timestamp-ms"})


def build_view(base: ViewMetadata | None, updates: Sequence[Update], *, now_ms: int, new_uuid: str) -> ViewMetadata:
    """The view after the updates; the `base` object itself if they change nothing.

    Without a base the updates create the view. Raises InvalidInput for an invalid update, InvalidViewVersion.
    """
    draft = _ViewDraft(base, now_ms)
    for update in updates:
        draft.apply(update)
    return draft.finish(new_uuid)


class _ViewDraft:
    def __init__(self, base: ViewMetadata | None, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self._uuid = base.uuid if base else None
        self._location = base.location if base else None
        self._schemas: dict[int, Schema] = dict(base.schemas) if base else {}
        self._versions: dict[int, ViewVersion] = dict(base.versions) if base else {}
        self._current: int | None = base.current_version_id if base else None
        self._properties: dict[str, str] = dict(base.properties) if base else {}
        self._added_schema_id: int | None = None
        self._added_version_id: int | None = None
        self._added: set[int] = set()

    def apply(self, update: Update) -> None:
        match update:
            case AddSchema():
                self._add_schema(update)
            case AddViewVersion():
                self._add_version(update)
            case SetCurrentViewVersion():
                self._current = chosen_id("version", update.view_version_id, self._added_version_id, self._versions)
            case AssignUuid():
                self._assign_uuid(update.uuid)
            case UpgradeFormatVersion():
                if update.format_version != VIEW_FORMAT_VERSION:
                    raise InvalidInput(
                        f"view format version must be {VIEW_FORMAT_VERSION}. format_version={update.format_version}",
                        argument="format-version",
                    )
            case SetLocation():
                self._location = without_trailing_slash(update.location)
            case SetProperties():
                check_properties(update.updates)
                self._properties.update(update.updates)
            case RemoveProperties():
                for name in update.removals:
                    self._properties.pop(name, None)
            case _:
                raise InvalidInput(
                    f"update does not apply to views. update={type(update).__name__}", argument="updates"
                )

    def finish(self, new_uuid: str) -> ViewMetadata:
        if not self._location:
            raise InvalidInput("the view would have no location: it must be set", argument="updates")
        current = None if self._current is None else self._versions.get(self._current)
        if current is None:
            raise InvalidInput("the view would have no version: one must be added and set", argument="updates")
        if self._base is not None:
            self._check_dialects(self._base.current_version, current)
        versions = self._retained(current)
        metadata = ViewMetadata(
            format_version=VIEW_FORMAT_VERSION,
            uuid=self._uuid or new_uuid,
            location=self._location,
            schemas=self._schemas,
            versions=versions,
            current_version_id=current.version_id,
            version_log=self._log(current, versions),
            properties=self._properties,
            unknown=self._base.unknown if self._base else {},
        )
        return self._base if self._base is not None and metadata == self._base else metadata

    def _add_schema(self, update: AddSchema) -> None:
        schema = parse_schema(update.schema, "add-schema: schema")
        check_format(schema, FORMAT_VERSIONS[-1])
        schema = reuse_or_number(schema, self._schemas)
        self._schemas[schema.id] = schema
        self._added_schema_id = schema.id

    def _add_version(self, update: AddViewVersion) -> None:
        version = parse_version(update.view_version, "add-view-version: view-version")
        if version.schema_id == LAST_ADDED or version.schema_id not in self._schemas:
            schema_id = chosen_id("schema", version.schema_id, self._added_schema_id, self._schemas)
            version = read(ViewVersion, rewrite(version.written, {"schema-id": schema_id}), "view-version")
        for one in self._versions.values():
            if same_meaning(one.written, version.written, ignoring=_IGNORED_FIELDS):
                self._added_version_id = one.version_id
                return
        version_id = max(version.version_id, 1, max(self._versions, default=0) + 1)
        if version_id != version.version_id:
            version = read(ViewVersion, rewrite(version.written, {"version-id": version_id}), "view-version")
        self._versions[version_id] = version
        self._added_version_id = version_id
        self._added.add(version_id)

    def _assign_uuid(self, uuid: str) -> None:
        check_uuid(uuid)
        if self._uuid is not None and self._base is not None and self._uuid.lower() != uuid.lower():
            raise InvalidInput(f"the UUID of a view cannot change. found={self._uuid} given={uuid}", argument="uuid")
        self._uuid = self._uuid if self._base is not None else uuid

    def _check_dialects(self, before: ViewVersion, after: ViewVersion) -> None:
        # Replacing a view from one engine must not remove other engines' dialects, unless a property allows it.
        if self._properties.get(DROP_DIALECT_ALLOWED, "false").lower() == "true":
            return
        lost = sorted(set(before.dialects) - set(after.dialects))
        if lost:
            raise InvalidViewVersion(
                f"the view would lose SQL dialects: add them, or set the property {DROP_DIALECT_ALLOWED} to true."
                f" lost={','.join(lost)}"
            )

    def _retained(self, current: ViewVersion) -> dict[int, ViewVersion]:
        """The latest versions, always with those of this commit and the current one."""
        keep = max(len(self._added | {current.version_id}), version_history_size(self._properties))
        if len(self._versions) <= keep:
            return self._versions
        others = sorted(self._versions.keys() - {current.version_id}, reverse=True)
        kept = {current.version_id, *others[: keep - 1]}
        return {version_id: version for version_id, version in self._versions.items() if version_id in kept}

    def _log(self, current: ViewVersion, versions: dict[int, ViewVersion]) -> tuple[ViewHistoryEntry, ...]:
        log = list(self._base.version_log) if self._base else []
        if self._base is None or self._base.current_version_id != current.version_id:
            # A version that becomes current again gets the time of this commit, not of its creation.
            when = current.timestamp_ms if current.version_id in self._added else self._now_ms
            if log:
                when = max(when, log[-1].timestamp_ms)
            log.append(history_entry(current.version_id, when))
        kept: list[ViewHistoryEntry] = []
        for entry in log:
            if entry.version_id in versions:
                kept.append(entry)
            else:
                kept.clear()  # entries before a gap are unreliable
        return tuple(kept)
