"""`lakebed credentials`: root's access key, with the secret only on request."""

from __future__ import annotations

import argparse

from lakebed.server.stores.identity import require_identity

from ..output import print_facts
from ..settings_flags import add_settings_flags, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_settings_flags(parser, serving=False)
    parser.add_argument("--show", action="store_true", help="also print the secret key")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print root's access key and the location of its secret."""
    loaded = read_settings(arguments)
    identity = require_identity(loaded.settings)
    shown = identity.root_secret_key.reveal() if arguments.show else "hidden; --show prints it"
    place = str(identity.secrets_path) if identity.root_is_generated else loaded.origins["root.secret_key"]
    facts = {"access_key": identity.root_access_key, "secret_key": shown, "stored_in": place}
    if arguments.json and not arguments.show:
        del facts["secret_key"]
    print_facts(facts, as_json=arguments.json)
    return 0
