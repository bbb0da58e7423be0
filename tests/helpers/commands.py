"""Commands that pages show, checked in this process instead of run for hours."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import yaml
from snakemake.cli import get_profile_dir, parse_args, parse_config

from subtune import cli, config
from subtune.interface.workflow import preflight
from tests.helpers.project import ROOT

RULES = {
    rule
    for path in [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    for rule in re.findall(r"^rule (\w+):", path.read_text(), re.M)
}
PROGRAMS = ("make", "python", "snakemake", "subtune")
READ_RESULTS = ("runs", "export", "predict", "verify")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def shown_in(page: Path) -> list[str]:
    """Return the commands in a page's indented blocks."""
    found = re.findall(
        r"^ {4,6}(?:uvx --from \S+ )?((?:make|subtune|\.venv/bin/\w+|apptainer) .*)$",
        page.read_text().replace("\\\n", ""),
        re.MULTILINE,
    )
    return [command.partition(" # ")[0].strip() for command in found]


def check(command: str, **placeholders: str) -> None:
    """Fail unless a command could run in the repository.

    ``make``: it knows the target. ``python -m``: the module has the options. ``snakemake``: it
    takes the options, and all runs of the configuration can be planned. ``subtune``: the command
    runs; only those that read records may fail with a line, since the repository has no records.
    """
    words = [_filled_in(word, placeholders) for word in shlex.split(command)]
    program, arguments = Path(words[0]).name, words[1:]
    if program == "make":
        assert {word for word in arguments if "=" not in word} <= TARGETS
    elif program == "python":
        _check_python(arguments)
    elif program == "snakemake":
        _check_snakemake(arguments)
    elif arguments[0] == "run":
        _check_snakemake(["--configfile", *arguments[1:]])
    elif arguments[0] == "compare":
        # tests/workflow/test_wheel.py runs it.
        assert cli.main(["init", *arguments[1:], "--to", placeholders["new"]]) == 0
    else:
        assert program == "subtune"
        # It counts all methods if none is named, which takes long.
        arguments = ["params", "bitfit"] if arguments == ["params"] else arguments
        assert cli.main(arguments) <= (arguments[0] in READ_RESULTS)


def _filled_in(word: str, placeholders: dict[str, str]) -> str:
    name, equals, value = word.rpartition("=")
    return name + equals + placeholders.get(value, value)


def _check_python(arguments: list[str]) -> None:
    if arguments[0] == "-c":
        subprocess.run([sys.executable, *arguments], check=True)
        return
    spec = find_spec(arguments[1])
    assert spec
    if spec.submodule_search_locations:
        spec = find_spec(f"{arguments[1]}.__main__")
    assert spec and spec.origin
    source = Path(spec.origin).read_text()
    options = [word for word in arguments[2:] if word.startswith("--")]
    assert all(f'"{option}"' in source for option in options)


def _check_snakemake(arguments: list[str]) -> None:
    _, options = parse_args(arguments)
    configured = options.configfile or [ROOT / "config.yaml"]
    for profile in options.profile or []:
        _, path = get_profile_dir(profile)
        if "config" in yaml.safe_load(Path(path).read_text()):
            configured = [path]
    data = yaml.safe_load(Path(configured[0]).read_text())
    checked = config.check(data.get("config", data) | parse_config(options.config))
    preflight(checked)
    asked = {*options.targets, *options.until, *options.forcerun}
    assert asked <= RULES | checked.experiments.keys()
