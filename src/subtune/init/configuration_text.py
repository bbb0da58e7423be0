"""The text of a first configuration: YAML with comments on what to change."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from subtune.core import machine
from subtune.init import DEFAULTS
from subtune.tasks import Task


def configuration_text(task: Task, experiment: str, **values: Any) -> str:
    """Return the text of a configuration.

    Args:
        task: the task of the tables.
        experiment: the name of the experiment.
        values: other variables of the template ``first_configuration.yaml``.
    """
    others = [name for name in task.of_kind.metrics if name not in task.metrics]
    if task.outputs != 2:
        # F1 is of two classes.
        others = [name for name in others if name != "f1"]
    return _template().render(
        values,
        task=task,
        other_metrics=others,
        at_once=machine.count_jobs_at_once(),
        experiment=experiment,
        defaults=DEFAULTS,
    )


def command(target: Path) -> str:
    """Return the command that trains a configuration."""
    program = "subtune"
    if not shutil.which(program):
        program = str(Path(sys.executable).with_name(program))
    return shlex.join([program, "run", str(target)])


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("subtune.init", ""),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"quoted": quoted, "rates": _rates, "command": command}
    return environment.get_template("first_configuration.yaml")


def quoted(text: str) -> str:
    """Return a text as YAML, in quotation marks if YAML needs them."""
    in_list = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=10**9)
    if in_list == f"[{text}]\n":
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).rstrip("\n")


def _rates(rates: Sequence[float]) -> str:
    """Return learning rates as YAML: one as a list, several as a search."""
    written = yaml.safe_dump([*rates], default_flow_style=True).strip()
    return f"{{search: {written}}}" if len(rates) > 1 else written
