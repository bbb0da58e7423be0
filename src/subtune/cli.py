"""The `subtune` command."""

import argparse
import json
import sys
from pathlib import Path

from subtune import config
from subtune.errors import SubtuneError


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    parser = argparse.ArgumentParser(prog="subtune", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check a configuration, without running anything")
    check.add_argument("config", nargs="?", default="config.yaml", type=Path)
    commands.add_parser("schema", help="print the configuration's JSON schema, for editors")
    options = parser.parse_args(arguments)
    if options.command == "schema":
        print(json.dumps(config.Config.model_json_schema(), indent=2))
        return 0
    try:
        checked = config.read(options.config)
    except SubtuneError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.config}: {len(checked.experiments)} experiment(s), no problems found")
    return 0
