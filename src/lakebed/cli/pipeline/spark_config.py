"""`lakebed spark-config`: Spark properties for the catalog, for Spark outside of Lakebed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lakebed.core.errors import InvalidInput
from lakebed.pipeline.spark.config import ConfigFormat, render_config

from ..server_access import add_access_flags, read_access, read_warehouse
from ..settings_flags import read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--print", dest="prints", action="store_true", help="print the configuration")
    place.add_argument("--output", metavar="FILE", type=Path, help="write it to a new file with mode 0600")
    parser.add_argument(
        "--format",
        type=ConfigFormat,
        choices=list(ConfigFormat),
        default=ConfigFormat.PROPERTIES,
        help="lines of spark-defaults.conf, flags of spark-submit, or Python (default properties)",
    )
    parser.add_argument("--show-secrets", action="store_true", help="include the secret keys")
    add_access_flags(parser, warehouse=True)


def run(arguments: argparse.Namespace) -> int:
    """Write the configuration."""
    settings = read_settings(arguments).settings
    access = read_access(arguments, settings)
    text = render_config(
        access, read_warehouse(arguments), settings.pipeline, arguments.format, show_secrets=arguments.show_secrets
    )
    if arguments.prints:
        print(text, end="")
        return 0
    try:
        descriptor = os.open(arguments.output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"cannot write the file. path={arguments.output} reason={error.strerror}") from error
    return 0
