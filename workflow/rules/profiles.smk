# Snakemake ignores the `config` of a profile if --config is given, too. Here, --config adds to it.

from contextlib import redirect_stderr
from io import StringIO

from snakemake.cli import get_argument_parser, parse_args, parse_config
from snakemake.utils import update_config


def read_call():
    """Return the configuration files of this call, and the settings of its profiles and of --config.

    The processes of jobs read the plan of the call instead.
    """
    files, settings = ["config.yaml"], {}
    if not workflow.is_main_process:
        return [*filter(exists, files)], settings
    try:
        with redirect_stderr(StringIO()):
            # This parser reads all profiles, and returns the value of the last profile that has a key.
            parser, command_line = parse_args(None)
    except SystemExit:
        # Another program calls Snakemake, whose settings are complete.
        return files, settings
    names = [name for name in command_line.profile or [] if name != "none"]
    parsers = [*(get_argument_parser([name]) for name in names), parser]
    for profile in [*(parser.parse_args([]) for parser in parsers), command_line]:
        update_config(settings, parse_config(profile.config))
    return parser.parse_args([]).configfile or files, settings


CONFIGURATION_FILES, GIVEN_SETTINGS = read_call()
