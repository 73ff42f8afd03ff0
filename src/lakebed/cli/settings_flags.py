"""Command-line flags of settings."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import LoadedSettings, SettingsFile, environment_name, known_settings, load_settings

_FLAGS: Final = {
    "listen": "server.listen",
    "catalog_listen": "server.catalog_listen",
    "streams_listen": "streams.listen",
    "workers": "server.workers",
    "insecure_http": "server.insecure_http",
    "data": "server.data",
}


def add_settings_flags(parser: argparse.ArgumentParser, *, serving: bool) -> None:
    """Add flags for settings; with `serving`, flags of the listeners too."""
    group = parser.add_argument_group("settings", "Flags override LAKEBED_… variables, which override the file.")
    group.add_argument("--config", metavar="FILE", type=Path, help="a TOML file of settings")
    group.add_argument("--data", metavar="DIR", help="data folder")
    if serving:
        group.add_argument("--listen", metavar="HOST:PORT", help="address of the server (default 127.0.0.1:9000)")
        group.add_argument(
            "--catalog-listen",
            metavar="HOST:PORT",
            help="separate address of catalog, management and health APIs (default: same as S3)",
        )
        group.add_argument("--streams-listen", metavar="HOST:PORT", help="address of the stream server (default: none)")
        group.add_argument("--workers", metavar="N", help="number of worker processes")
        group.add_argument(
            "--insecure-http",
            action="store_const",
            const="true",
            help="allow plain HTTP on addresses other than loopback",
        )
    group.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], help="any setting, such as log.level=debug"
    )


def read_settings(arguments: argparse.Namespace) -> LoadedSettings:
    """Load the settings from flags, environment and file. Raises InvalidSetting."""
    flags: dict[str, tuple[str, str]] = {}
    for word in arguments.set:
        path, separator, text = word.partition("=")
        if not separator:
            raise InvalidSetting(f"--set: expected PATH=VALUE. found={path!r}", argument="--set")
        kind = known_settings().get(path)
        if kind is not None and kind.is_secret:
            # All users of the machine can read process arguments.
            raise InvalidSetting(
                f"{path}: secrets are not accepted on the command line: use {environment_name(path)} or the file",
                argument=path,
            )
        flags[path] = (f"--set {path}", text)
    for name, path in _FLAGS.items():
        text = getattr(arguments, name, None)
        if text is not None:
            flags[path] = (f"--{name.replace('_', '-')}", text)
    return load_settings(file=_read_file(arguments.config), environ=os.environ, flags=flags)


def _read_file(path: Path | None) -> SettingsFile | None:
    if path is None:
        return None
    try:
        return SettingsFile(str(path), path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(f"--config: cannot read the file. path={path} reason={error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"--config: not UTF-8 text. path={path}") from error
